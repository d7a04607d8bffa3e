"""Points under ncu: one child for all of them, and another for the rest when it dies at one of them.

A report's launches are told apart by the NVTX range that they lie in, never by their order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from roofexp.counters.command import Command
from roofexp.counters.launch import Launch
from roofexp.counters.messages import Explanation
from roofexp.counters.plan import Step, Task, at_work
from roofexp.counters.run import EVERY_POINT, Ended, run_child

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
    found = {}
    for step in steps:
        if step.name and step.state in ("refused", "failed"):
            found[step.name] = Problem(kind=step.state, reason=step.reason)
        elif step.state == "timeout":
            found[step.name] = Problem(kind="timeout", reason="not counted within the point's time")
    return found


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
    found = next((name for name in reversed(launch.nvtx) if name in names), None)
    prefix = launch.kernel.partition("/")[0]
    return found or (prefix if prefix in names else None)


def _death(ended: Ended) -> Problem:
    if ended.hung:
        return Problem(kind="timeout", reason="ncu gave no sign of life within the point's time")
    if ended.trouble is not None and ended.trouble.kind not in ("application", "unknown", "no kernels"):
        return Problem(kind=ended.trouble.kind, reason=ended.trouble.cause)
    said = f": {ended.last_line}" if ended.last_line else ""
    return Problem(kind="crash", reason=f"the process under ncu ended at this point{said}")


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
    said = f" ({ended.last_line})" if ended.last_line else ""
    cause = ended.trouble.cause if ended.trouble else f"ncu ended without a report{said}"
    kind = ended.trouble.kind if ended.trouble else "unknown"
    failed = next((step for step in ended.steps if step.state == "failed" and not step.name), None)
    if failed is not None:
        kind, cause = "no device", f"the process under ncu could not open the GPU: {failed.reason}"
    counting.unavailable = Explanation(kind=kind, cause=cause, cure="timing works without counters")
