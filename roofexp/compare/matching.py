"""The two sides of a comparison, and which of their points measured the same thing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from roofexp.clocks import roofs_of
from roofexp.compare.significance import Estimate, estimate, estimate_from_interval
from roofexp.errors import BadInputError
from roofexp.records.archive import read_or_note, read_sample_times, read_sweep_machines, read_sweep_points
from roofexp.records.machine import Machine, RoofSet
from roofexp.records.point import Point
from roofexp.records.sweep_folder import read_roofs, read_sweep

ALLOWED = "allowed: the folder of one sweep, e.g. outputs/gemm/<date_time>, or the MLflow id of a sweep's run"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` stands for the sweep in texts; ``samples`` holds raw times in s by job."""

    name: str
    folder: Path
    points: list[Point]
    samples: dict[int, list[float]]
    machines: dict[str, Machine]
    roofs: list[RoofSet]
    description: dict[str, Any]
    problems: list[str] = []  # files that could not be read, a line each

    def estimate(self, point: Point) -> Estimate:
        """Of a timed point: from its raw samples, else from the interval in its record."""
        assert point.timing
        times = self.samples.get(point.job)
        if times and min(times) > 0:
            return estimate(times)
        timing = point.timing
        return estimate_from_interval(timing.median_s, timing.low_s, timing.high_s, timing.samples)

    def machine_name(self, point: Point) -> str:
        machine = self.machines.get(point.machine_id or "")
        return machine.name if machine else point.machine_id or "unknown machine"

    def roofs_of(self, point: Point) -> RoofSet | None:
        return roofs_of(point, self.roofs)


def read_side(folder: Path, name: str | None = None) -> Side:
    """Raises BadInputError for a folder without a point in it."""
    if not folder.is_dir():
        raise BadInputError(f"{folder}: no such folder; {ALLOWED}")
    points = read_sweep_points(folder)
    if not points:
        raise BadInputError(f"{folder}: no points in it; {ALLOWED}")
    problems: list[str] = []
    return Side(
        name=name or folder.resolve().name,
        folder=folder,
        points=points,
        samples=read_sample_times(folder, problems),
        machines=read_or_note(lambda: read_sweep_machines(folder), {}, problems),
        roofs=read_or_note(lambda: read_roofs(folder), [], problems),
        description=read_or_note(lambda: read_sweep(folder), {}, problems),
        problems=list(dict.fromkeys(problems)),
    )


Key = tuple[str, ...]


DIMENSIONS: dict[str, Callable[[Point], str]] = {
    "kernel": lambda point: point.kernel,
    "size": lambda point: str(point.size),
    "shape": lambda point: json.dumps(point.shape, sort_keys=True, default=str),
    "params": lambda point: " ".join(f"{k}={v}" for k, v in sorted({**point.params, **point.scalars}.items())),
    "precision": lambda point: point.precision,
    "clock": lambda point: point.clock_mode + (f" ({point.clock_asked})" if point.clock_asked else ""),
    "cache": lambda point: point.cache_state,
    "fill": lambda point: point.fill,
    "device": lambda point: point.device or "",
    "machine": lambda point: point.machine_id or "",
}

GUARDED = ("machine", "precision", "cache", "fill", "clock")  # comparing across them answers another question
ACROSS = (*GUARDED, "kernel", "params")
TAKES_ALONG = {"machine": ("device",), "kernel": ("shape", "params")}  # what differs whenever that does


class Pair(msgspec.Struct, frozen=True):
    """Points of either side that measured one thing; several on a side are repeated runs of it."""

    a: list[Point]
    b: list[Point]


class Matching(msgspec.Struct, frozen=True, kw_only=True):
    """``hint`` says what would match more."""

    pairs: list[Pair]
    only_a: list[Point]
    only_b: list[Point]
    hint: str | None = None


def match(a: Sequence[Point], b: Sequence[Point], across: Iterable[str] = (), itself: bool = False) -> Matching:
    """``across``: names of ACROSS that may differ. ``itself``: both are one sweep, so that only what differs in
    ``across`` makes a pair.

    Raises BadInputError, naming what differs, where no pair is left.
    """
    across = tuple(across)
    groups_a, groups_b = _grouped(a), _grouped(b)
    same = [] if itself else [key for key in groups_a if key in groups_b]
    pairs = [Pair(groups_a.pop(key), groups_b.pop(key)) for key in same]
    if across:
        pairs += _relaxed(groups_a, groups_b, across, itself)
    paired = {id(point) for pair in pairs for point in (*pair.a, *pair.b)}
    if not pairs:
        raise BadInputError(_refusal(a, b, across, itself))
    only_a = [point for point in a if id(point) not in paired]
    only_b = [point for point in b if id(point) not in paired]
    if itself:
        return Matching(pairs=pairs, only_a=[], only_b=[])
    return Matching(pairs=pairs, only_a=only_a, only_b=only_b, hint=_hint(only_a, only_b, across))


def key_of(point: Point, without: Iterable[str] = ()) -> Key:
    """What was measured and how, less some dimensions."""
    left_out = set(without) | {name for given in without for name in TAKES_ALONG.get(given, ())}
    return tuple(value(point) for name, value in DIMENSIONS.items() if name not in left_out)


def _grouped(points: Iterable[Point], without: Sequence[str] = ()) -> dict[Key, list[Point]]:
    groups: dict[Key, list[Point]] = {}
    for point in points:
        if point.status == "ok" and point.timing is not None:
            groups.setdefault(key_of(point, without), []).append(point)
    return groups


def _relaxed(
    groups_a: dict[Key, list[Point]], groups_b: dict[Key, list[Point]], across: Sequence[str], itself: bool
) -> list[Pair]:
    """One of a side with each of the other; several with several is a guess, and refused."""
    left_a = _by_relaxed_key(groups_a, across)
    left_b = _by_relaxed_key(groups_b, across)
    pairs = []
    for key, first in left_a.items():
        if itself:
            pairs += [Pair(first[0], other) for other in first[1:]]
            continue
        second = left_b.get(key, [])
        if len(first) > 1 and len(second) > 1:
            raise BadInputError(
                f"--across {','.join(across)}: which is to be compared with which? A has {_names(first, across)}; "
                f"B has {_names(second, across)}; allowed: one on either side"
            )
        pairs += [Pair(runs, others) for runs in first for others in second]
    return pairs


def _by_relaxed_key(groups: dict[Key, list[Point]], across: Sequence[str]) -> dict[Key, list[list[Point]]]:
    relaxed: dict[Key, list[list[Point]]] = {}
    for points in groups.values():
        relaxed.setdefault(key_of(points[0], across), []).append(points)
    return relaxed


def _names(groups: list[list[Point]], across: Sequence[str]) -> str:
    return ", ".join(f"{points[0].kernel} {points[0].size} {described(points[0], across)}" for points in groups[:4])


def described(point: Point, dimensions: Sequence[str]) -> str:
    """The point's values of some dimensions, in words."""
    return " ".join(DIMENSIONS[name](point) for name in dimensions)


def _refusal(a: Sequence[Point], b: Sequence[Point], across: Sequence[str], itself: bool) -> str:
    """What differs between points that would match otherwise; else that the sweeps measured other things."""
    for name, points in (("A", a), ("B", b)):
        if not _grouped(points):
            return f"{name} has no measured point: {len(points)} failed or were skipped"
    if itself:
        allowed = ", ".join(ACROSS)
        return f"A and B are one sweep: say what its points are compared across, by --across; allowed: {allowed}"
    for count in range(1, len(GUARDED) + 1):
        for names in itertools.combinations([name for name in GUARDED if name not in across], count):
            wider = (*across, *names)
            if _grouped(a, wider).keys() & _grouped(b, wider).keys():
                what = "; ".join(f"{name}: A {_values(a, name)}, B {_values(b, name)}" for name in names)
                return f"not comparable: they differ in {what}; to compare all the same: --across {','.join(wider)}"
    return (
        f"no point of A has its like in B: A measured {_kernels(a)}, B {_kernels(b)}; "
        "to compare one kernel with another: --across kernel"
    )


def _hint(only_a: list[Point], only_b: list[Point], across: Sequence[str]) -> str | None:
    for name in GUARDED:
        wider = (*across, name)
        more = _grouped(only_a, wider).keys() & _grouped(only_b, wider).keys()
        if more:
            return f"{len(more)} more would have a partner by --across {','.join(wider)}"
    return None


def _values(points: Sequence[Point], dimension: str) -> str:
    return ", ".join(sorted({DIMENSIONS[dimension](point) or "unknown" for point in points}))


def _kernels(points: Sequence[Point]) -> str:
    names = list(dict.fromkeys(point.name for point in points))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
