"""One child under ncu, from its start to what it left: the launches of its report and why it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from roofexp.devices.environment import worker_environment
from roofexp.errors import BadInputError
from roofexp.ncu import MISSING_CURE, Explanation, explain_ncu_failure, ncu_environment
from roofexp.ncu.child import CHILD, Command, Plan, ProgressFile, Step, Task, at_work
from roofexp.ncu.launch import Launch
from roofexp.ncu.report import read_rep_file, read_report

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
        self._log, self._output = folder / "log", folder / "output"
        self._progress = ProgressFile(folder / "progress")
        self._plan = folder / "plan.json"
        self._hung = self._stopped = False
        self._code: int | None = None
        self._trouble: Explanation | None = None

    def follow(self) -> None:
        """Starts ncu and waits for its end, for silence, or for word that nothing will come of it."""
        words = self._command.words(self._log, self._plan, self._progress.path)
        try:
            with self._output.open("wb") as output:
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
            now = (_size(self._progress.path), _size(self._log) + _size(self._output))
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
        return f"{_read(self._log)}\n{_read(self._output)}"

    def ended(self, seconds: float) -> Ended:
        trouble = self._trouble
        if trouble is None and not self._hung:
            trouble = explain_ncu_failure(self._text(), 0 if self._stopped else self._code or 0)
        launches, complaint = self._launches()
        lines = [line for line in _read(self._output).splitlines() if line.strip() and not line.startswith("==")]
        return Ended(
            launches=launches,
            steps=self._progress.read(),
            trouble=trouble or complaint,
            hung=self._hung,
            orderly=self._code == 0 and not self._stopped and not self._hung,
            last_line=lines[-1].strip()[:200] if lines else "",
            seconds=seconds,
        )

    def _launches(self) -> tuple[list[Launch], Explanation | None]:
        report, text = self._command.report, _read(self._log)
        try:
            if '"Kernel Name"' in text:
                return read_report(text, "ncu's report", decimal="."), None
            if report is not None and report.is_file():
                return read_rep_file(report, self._command.ncu), None
        except BadInputError as error:
            return [], Explanation(kind="unknown", cause=str(error), cure="timing works without counters")
        return [], None


def child_environment(device: str) -> dict[str, str]:
    """That of a worker, for ncu too; a run of MLflow that the parent was started in is not the child's."""
    environment = ncu_environment(worker_environment(device))
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
        if step.pid and is_child(step.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(step.pid, signal.SIGKILL)


def is_child(pid: int) -> bool:
    """Numbers are used again: only what still runs our module is ended."""
    with contextlib.suppress(OSError):
        return CHILD.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
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


Announce = Callable[[str], None]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why one point has no counters."""

    kind: str
    reason: str


class Counting(msgspec.Struct, kw_only=True):
    """What a session gave: launches or a problem for each task, by name. ``command`` is what was asked in the end."""

    command: Command
    launches: dict[str, list[Launch]] = {}
    problems: dict[str, Problem] = {}
    unavailable: Explanation | None = None  # why the tasks that are in neither have nothing
    missing: dict[str, str] = {}  # metrics that this ncu turned out not to have
    children: int = 0
    seconds: float = 0.0

    def rest(self, tasks: list[Task]) -> list[Task]:
        """Tasks without an answer."""
        return [task for task in tasks if task.name not in self.launches and task.name not in self.problems]


def count(tasks: list[Task], command: Command, announce: Announce) -> Counting:
    """Runs all tasks; every round brings results, gives up a point, or leaves out what ncu does not know."""
    counting = Counting(command=command)
    while rest := counting.rest(tasks):
        done = len(tasks) - len(rest)
        command = _with_own_report(counting.command, counting.children)
        ended = run_child(rest, command, partial(_tell, announce, done, len(tasks)))
        counting.children += 1
        counting.seconds += ended.seconds
        trouble = _other_machine(ended.steps, command.machine_name) or ended.trouble
        final = trouble is not None and trouble.kind in EVERY_POINT
        _take(counting, rest, ended, final)
        if _slimmed(counting, trouble):
            continue
        if final:
            counting.unavailable = trouble
            break
        if counting.rest(rest) == rest:
            _give_up(counting, ended)
            break
    return counting


def _tell(announce: Announce, before: int, total: int, number: int) -> None:
    announce(f"counters {before + number} of {total}")


def _with_own_report(command: Command, number: int) -> Command:
    """A further child must not overwrite what the one before it reported."""
    if command.report is None or number == 0:
        return command
    return msgspec.structs.replace(command, report=command.report.with_stem(f"{command.report.stem}_{number + 1}"))


def _take(counting: Counting, rest: list[Task], ended: Ended, final: bool) -> None:
    """Launches by range, and what the child said of single points."""
    names = {task.name for task in rest}
    for launch in ended.launches:
        name = range_of(launch, names)
        if name is not None:
            bare = msgspec.structs.replace(launch, kernel=launch.kernel.removeprefix(f"{name}/"))
            counting.launches.setdefault(name, []).append(bare)
    counting.problems |= _said(ended.steps)
    if not final:
        counting.problems |= _unsaid(counting, ended, names)
    for name in counting.problems:  # half a result is none
        counting.launches.pop(name, None)


def _said(steps: list[Step]) -> dict[str, Problem]:
    problems = {}
    for step in steps:
        if step.name and step.state in ("refused", "failed"):
            problems[step.name] = Problem(kind=step.state, reason=step.reason)
        elif step.state == "timeout":
            problems[step.name] = Problem(kind="timeout", reason="not counted within the point's time")
    return problems


def _unsaid(counting: Counting, ended: Ended, names: set[str]) -> dict[str, Problem]:
    """The point at which the child died; and in an orderly session those that launched nothing."""
    culprit = at_work(ended.steps)
    if culprit in names and culprit not in counting.problems:
        innocent = ended.trouble is not None and ended.trouble.kind == "unknown metric"
        return {} if innocent else {culprit: _death(ended)}
    if not ended.orderly:
        return {}
    silent = [s.name for s in ended.steps if s.state == "done" and s.name not in counting.launches]
    return dict.fromkeys(silent, Problem(kind="no kernels", reason="no kernel was profiled in its range"))


def range_of(launch: Launch, names: set[str]) -> str | None:
    """The task whose range a launch lies in; where ncu gives no column of ranges, by the prefix of its name."""
    innermost = next((name for name in reversed(launch.nvtx) if name in names), None)
    prefix = launch.kernel.partition("/")[0]
    return innermost or (prefix if prefix in names else None)


def _death(ended: Ended) -> Problem:
    if ended.hung:
        return Problem(kind="timeout", reason="ncu gave no sign of life within the point's time")
    if ended.trouble is not None and ended.trouble.kind not in ("application", "unknown", "no kernels"):
        return Problem(kind=ended.trouble.kind, reason=ended.trouble.cause)
    words = f": {ended.last_line}" if ended.last_line else ""
    return Problem(kind="crash", reason=f"the process under ncu ended at this point{words}")


def _other_machine(steps: list[Step], name: str | None) -> Explanation | None:
    """Counters of another GPU must not be joined to these times."""
    ready = next((step for step in steps if step.state == "ready"), None)
    if ready is None or name is None or ready.machine_name in ("", name):
        return None
    return Explanation(
        kind="other machine",
        cause=f"the points were measured on {name}, this GPU is {ready.machine_name}",
        cure="count on the machine that measured",
    )


def _slimmed(counting: Counting, trouble: Explanation | None) -> bool:
    """Whether there is less to ask for, so that asking again makes sense."""
    slimmer = None
    if trouble is not None and trouble.kind == "unknown option":
        slimmer = counting.command.without_option(trouble.cause)
    elif trouble is not None and trouble.unknown_metric is not None:
        slimmer = _without_metric(counting, trouble.unknown_metric)
    if slimmer is None:
        return False
    counting.command = slimmer
    return True


def _without_metric(counting: Counting, named: str) -> Command | None:
    """The command without the metric that ncu stumbled over; None where that is none of those asked for."""
    asked = counting.command.metrics
    refused = [metric for metric in asked if metric.split(".")[0] == named.split(".")[0]]
    if not refused or len(refused) == len(asked):
        return None
    counting.missing |= dict.fromkeys(refused, "refused by this ncu")
    return msgspec.structs.replace(counting.command, metrics=[m for m in asked if m not in refused])


def _give_up(counting: Counting, ended: Ended) -> None:
    """Nothing came of this child and nobody knows better: another one would end in the same way."""
    words = f" ({ended.last_line})" if ended.last_line else ""
    cause = ended.trouble.cause if ended.trouble else f"ncu ended without a report{words}"
    kind = ended.trouble.kind if ended.trouble else "unknown"
    failed = next((step for step in ended.steps if step.state == "failed" and not step.name), None)
    if failed is not None:
        kind, cause = "no device", f"the process under ncu could not open the GPU: {failed.reason}"
    counting.unavailable = Explanation(kind=kind, cause=cause, cure="timing works without counters")
