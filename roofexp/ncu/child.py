"""The process that ncu profiles: its tasks, its progress file, its watchdog, and the command line that starts it."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from roofexp.errors import BadInputError, FailedError, SkippedError
from roofexp.kernel import Kernel
from roofexp.records.machine import Machine
from roofexp.text.console import first_line, one_line

CHILD = "roofexp.ncu.child"  # this module, which ncu starts by its name
State = Literal["ready", "start", "done", "refused", "failed", "timeout"]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One launch to be counted. ``name`` is its NVTX range, by which its kernels are found in the report."""

    name: str
    kernel: Kernel
    implementation: str
    seed: int
    hot: bool


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """``parent`` is the process whose end ends this one; ``machine_name`` the GPU that was measured, where known."""

    device: str  # cuda or cuda:<index>
    roots: list[str]
    tasks: list[Task]
    timeout_s: float
    parent: int
    machine_name: str | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the progress file. refused: this point only; failed: the process cannot go on."""

    state: State
    name: str = ""
    reason: str = ""
    machine_id: str = ""  # of ready: the GPU that was opened
    machine_name: str = ""
    pid: int = 0


class ProgressFile:
    """Steps as lines, each written at once: what was said last is known after any end."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def say(self, step: Step) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(step) + b"\n")

    def read(self) -> list[Step]:
        """A last line that was cut short is left out."""
        steps = []
        for line in self.path.read_bytes().splitlines() if self.path.exists() else []:
            try:
                steps.append(msgspec.json.decode(line, type=Step))
            except msgspec.MsgspecError:
                continue
        return steps


def at_work(steps: list[Step]) -> str | None:
    """The task that was begun last and not ended."""
    begun: str | None = None
    for step in steps:
        if step.state == "start":
            begun = step.name
        elif step.state in ("done", "refused") and step.name == begun:
            begun = None
    return begun


EXIT_TIMEOUT, EXIT_FAULT, EXIT_ORPHAN, EXIT_NO_DEVICE = 75, 70, 76, 69


class Profiled(Protocol):
    """A kernel that a profiler can look at."""

    def profile(self, name: str, hot: bool) -> None: ...

    def release(self) -> None: ...


class ProfiledDevice(Protocol):
    """The part of a GPU device that counting needs; see roofexp.devices.base.Device."""

    def machine(self) -> Machine: ...

    def load(self, kernel: Kernel, implementation: str, seed: int) -> Profiled: ...

    def explain(self, error: Exception) -> FailedError | None: ...


def main() -> None:
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    progress = ProgressFile(Path(sys.argv[2]))
    watchdog = Watchdog(plan, progress)
    try:
        device = _open(plan)
    except Exception as error:  # whatever a driver or a library says: the parent reads it
        progress.say(Step(state="failed", reason=_one_line(error)))
        os._exit(EXIT_NO_DEVICE)
    machine = device.machine()
    ready = Step(state="ready", machine_id=machine.machine_id, machine_name=machine.name, pid=os.getpid())
    progress.say(ready)
    if plan.machine_name not in (None, machine.name):
        os._exit(EXIT_NO_DEVICE)  # counters of another GPU must not be joined to these times
    if not run_tasks(plan.tasks, device, progress, watchdog):
        os._exit(EXIT_FAULT)  # a broken context may hang in an orderly end


def _open(plan: Plan) -> ProfiledDevice:
    from roofexp.devices import parse_device
    from roofexp.devices.cuda.device import CudaDevice
    from roofexp.devices.cuda.machine import why_no_cuda

    index = parse_device(plan.device)[1] or 0
    reason = why_no_cuda(index)
    if reason is not None:
        raise BadInputError(reason)
    return CudaDevice(index, [Path(root) for root in plan.roots])


def run_tasks(
    tasks: list[Task], device: ProfiledDevice, progress: ProgressFile, watchdog: Watchdog | None = None
) -> bool:
    """Whether the device is still usable at the end. What a kernel does wrong is said of its point."""
    for task in tasks:
        if watchdog:
            watchdog.begin(task.name)
        progress.say(Step(state="start", name=task.name))
        try:
            _run(task, device)
        except Exception as error:
            step = _refusal(task, error, device)
            progress.say(step)
            if step.state == "failed":
                return False
        else:
            progress.say(Step(state="done", name=task.name))
    if watchdog:
        watchdog.end()
    return True


def _run(task: Task, device: ProfiledDevice) -> None:
    loaded = device.load(task.kernel, task.implementation, task.seed)
    try:
        loaded.profile(task.name, task.hot)
    finally:
        loaded.release()


def _refusal(task: Task, error: Exception, device: ProfiledDevice) -> Step:
    """Errors before the launch leave the device as it was; those of the device may have broken it."""
    if isinstance(error, (BadInputError, SkippedError, MemoryError)):
        return Step(state="refused", name=task.name, reason=_one_line(error))
    explained = device.explain(error)
    if explained is not None and explained.kind == "out of memory":
        return Step(state="refused", name=task.name, reason=str(explained))
    return Step(state="failed", name=task.name, reason=str(explained) if explained else _one_line(error))


class Watchdog:
    """Ends the process when a point takes too long or the parent is gone. ncu then reports what it has."""

    def __init__(self, plan: Plan, progress: ProgressFile) -> None:
        self._timeout_s, self._parent, self._progress = plan.timeout_s, plan.parent, progress
        self._name: str | None = None
        self._deadline = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self, name: str) -> None:
        self._deadline = time.monotonic() + self._timeout_s
        self._name = name

    def end(self) -> None:
        self._name = None

    def _watch(self) -> None:
        while True:
            time.sleep(0.2)
            if self._name is not None and time.monotonic() > self._deadline:
                self._progress.say(Step(state="timeout", name=self._name))
                os._exit(EXIT_TIMEOUT)
            if not _alive(self._parent):
                os._exit(EXIT_ORPHAN)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _one_line(error: BaseException) -> str:
    return first_line(error) if isinstance(error, (BadInputError, SkippedError)) else one_line(error)


CLOCK_CONTROL = {"base": "base", "boost": "boost"}  # by clock mode; every other mode leaves the clocks to itself


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """``device`` and ``roots`` are for the child; ``report`` is where to keep the .ncu-rep, None: nowhere."""

    ncu: Path
    metrics: list[str]
    clock_control: str
    cache_control: str
    replay_mode: str
    timeout_s: float
    device: str = "cuda"
    roots: list[Path] = []
    machine_name: str | None = None
    report: Path | None = None
    rename: bool = True  # an ncu before 2021.2 cannot put the range before the kernel's name; its column says it too

    def words(self, log: Path, plan: Path, progress: Path) -> list[str]:
        """What to execute. ncu writes its report to ``log``; the child's own output stays apart."""
        words = [
            str(self.ncu),
            *("--config-file", "off"),
            *("--target-processes", "application-only"),
            *("--profile-from-start", "off"),
            "--nvtx",
            *("--clock-control", self.clock_control),
            *("--cache-control", self.cache_control),
            *("--replay-mode", self.replay_mode),
            *("--metrics", ",".join(self.metrics)),
            *("--csv", "--page", "raw", "--print-units", "base"),
            *("--log-file", str(log)),
        ]
        if self.rename:
            words += ["--print-nvtx-rename", "kernel"]
        if self.report is not None:
            words += ["--export", str(self.report), "--force-overwrite"]
        return [*words, sys.executable, "-P", "-m", CHILD, str(plan), str(progress)]

    def without_option(self, complaint: str) -> Command | None:
        """The command without what ncu complains of; None where it is needed."""
        if "nvtx-rename" in complaint and self.rename:
            return msgspec.structs.replace(self, rename=False)
        if "clock-control" in complaint and self.clock_control not in ("base", "none"):
            return msgspec.structs.replace(self, clock_control="none")
        return None


if __name__ == "__main__":
    main()
