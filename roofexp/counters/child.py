"""The process that runs under ncu: each point's launch once, in a range of its own. It measures and tracks nothing.

ncu ... python -m roofexp.counters.child PLAN PROGRESS
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Protocol

import msgspec

from roofexp.counters.plan import Plan, ProgressFile, Step, Task
from roofexp.errors import BadInputError, FailedError, SkippedError
from roofexp.kernel import Kernel
from roofexp.machine import Machine

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
    from roofexp.devices.cuda import CudaDevice, why_no_cuda

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
    known = device.explain(error)
    if known is not None and known.kind == "out of memory":
        return Step(state="refused", name=task.name, reason=str(known))
    return Step(state="failed", name=task.name, reason=str(known) if known else _one_line(error))


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
    lines = str(error).strip().splitlines()
    if isinstance(error, (BadInputError, SkippedError)) and lines:
        return lines[0]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


if __name__ == "__main__":
    main()
