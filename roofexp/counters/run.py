"""One child under ncu, from its start to what it left: the launches of its report and why it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from roofexp.counters.command import Command
from roofexp.counters.launch import Launch
from roofexp.counters.messages import MISSING_CURE, Explanation, explain_ncu_failure
from roofexp.counters.plan import Plan, ProgressFile, Step, Task
from roofexp.counters.rep_file import read_rep_file
from roofexp.counters.report import read_report
from roofexp.errors import BadInputError
from roofexp.worker import worker_environment

START_S = 180.0  # until the child has opened the GPU
REPORT_S = 300.0  # from the last point to the end of ncu
GRACE_S = 30.0  # after a point's own time, for ncu to notice and to report
POLL_S = 0.05
# these concern every point, however many are left: the session is ended as soon as ncu says so
EVERY_POINT = frozenset(
    {"missing", "permission", "lock", "busy", "unsupported", "library", "other machine", "no device", "unknown option"}
)


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """``orderly``: it came to its end by itself and said nothing against it."""

    launches: list[Launch]
    steps: list[Step]
    trouble: Explanation | None
    hung: bool
    orderly: bool
    last_line: str  # that the child printed
    seconds: float


def run_child(tasks: list[Task], command: Command, on_done: Callable[[int], None]) -> Ended:
    """Never raises for what ncu or the child do wrong. ``on_done`` is told how many tasks are behind it."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="roofexp-ncu-") as name:
        folder = Path(name)
        plan = Plan(
            device=command.device,
            roots=[str(root) for root in command.roots],
            tasks=tasks,
            timeout_s=command.timeout_s,
            machine_name=command.machine_name,
            parent=os.getpid(),
        )
        (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
        child = _Child(folder, command, on_done)
        child.follow()
        return child.ended(time.monotonic() - start)


class _Child:
    def __init__(self, folder: Path, command: Command, on_done: Callable[[int], None]) -> None:
        self._command, self._on_done = command, on_done
        self._log, self._said = folder / "log", folder / "output"
        self._progress = ProgressFile(folder / "progress")
        self._plan = folder / "plan.json"
        self._hung = self._stopped = False
        self._code: int | None = None
        self._trouble: Explanation | None = None

    def follow(self) -> None:
        """Starts ncu and waits for its end, for silence, or for word that nothing will come of it."""
        words = self._command.words(self._log, self._plan, self._progress.path)
        try:
            with self._said.open("wb") as output:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                    env=child_environment(self._command.device),
                )  # fmt: skip
        except OSError as error:
            cause = f"ncu could not be started ({error.strerror})"
            self._trouble = Explanation(kind="missing", cause=cause, cure=MISSING_CURE)
            return
        try:
            self._watch(process)
        finally:
            if process.poll() is None:
                _end(process, self._progress.read())
            self._code = process.returncode

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        steps: list[Step] = []
        sizes, deadline = (0, 0), time.monotonic() + START_S
        while process.poll() is None:
            time.sleep(POLL_S)
            now = (_size(self._progress.path), _size(self._log) + _size(self._said))
            if now[0] != sizes[0]:
                steps = self._progress.read()
                self._on_done(sum(step.state in ("done", "refused") for step in steps))
                deadline = time.monotonic() + self._patience_s(steps)
            if now[1] != sizes[1] and self._hopeless():
                self._stopped = True
                return
            sizes = now
            if time.monotonic() > deadline:
                self._hung = True
                return

    def _patience_s(self, steps: list[Step]) -> float:
        return (self._command.timeout_s + GRACE_S) if steps[-1:] and steps[-1].state == "start" else REPORT_S

    def _hopeless(self) -> bool:
        trouble = explain_ncu_failure(self._text(), 0)
        return trouble is not None and trouble.kind in EVERY_POINT

    def _text(self) -> str:
        return f"{_read(self._log)}\n{_read(self._said)}"

    def ended(self, seconds: float) -> Ended:
        trouble = self._trouble
        if trouble is None and not self._hung:
            trouble = explain_ncu_failure(self._text(), 0 if self._stopped else self._code or 0)
        launches, complaint = self._launches()
        said = [line for line in _read(self._said).splitlines() if line.strip() and not line.startswith("==")]
        return Ended(
            launches=launches,
            steps=self._progress.read(),
            trouble=trouble or complaint,
            hung=self._hung,
            orderly=self._code == 0 and not self._stopped and not self._hung,
            last_line=said[-1].strip()[:200] if said else "",
            seconds=seconds,
        )

    def _launches(self) -> tuple[list[Launch], Explanation | None]:
        report, text = self._command.report, _read(self._log)
        try:
            if '"Kernel Name"' in text:
                return read_report(text, "ncu's report"), None
            if report is not None and report.is_file():
                return read_rep_file(report, self._command.ncu), None
        except BadInputError as error:
            return [], Explanation(kind="unknown", cause=str(error), cure="timing works without counters")
        return [], None


def child_environment(device: str) -> dict[str, str]:
    """That of a worker; a run of MLflow that the parent was started in is not the child's."""
    environment = worker_environment(device)
    return {name: value for name, value in environment.items() if not name.startswith("MLFLOW_")}


def _end(process: subprocess.Popen[bytes], steps: list[Step]) -> None:
    """ncu, then the child, which may be in a group of its own; both were started here."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
            break
    for step in steps:
        if step.pid and _is_child(step.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(step.pid, signal.SIGKILL)


def _is_child(pid: int) -> bool:
    """Numbers are used again: only what still runs our module is ended."""
    with contextlib.suppress(OSError):
        return b"roofexp.counters.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""
