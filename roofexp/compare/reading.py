"""A pair of points with its tests: of the time, and of the cycles where the compute units bind."""

from __future__ import annotations

import math

import msgspec

from roofexp.compare.matching import Pair
from roofexp.compare.side import Side
from roofexp.compare.significance import Change, Estimate, change, combined
from roofexp.point import Point

COMPUTE = ("compute-bound", "on the compute roof")
ENOUGH = 5  # independent samples; more make a spread matter less
DISTURBED = ("machine not quiet", "too short")  # flags of times that other programs or the timer took part in


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``floor``: by how much two runs of the same thing may differ, relative; ``disturbed_floor``: where a flag says
    that they were disturbed. ``measured_floor``: from repeated runs, which then replaces guessing from the spread of
    the samples. ``level``: the chance of one false change among all points."""

    floor: float = 0.01
    disturbed_floor: float = 0.05
    measured_floor: float | None = None
    level: float = 0.01

    @property
    def least_floor(self) -> float:
        return max(self.floor, self.measured_floor or 0.0)


class Reading(msgspec.Struct, frozen=True):
    """``a`` and ``b`` stand for their runs; the tests are before any correction for their number."""

    pair: Pair
    a: Point
    b: Point
    a_time: Estimate
    b_time: Estimate
    time: Change
    cycles: Change | None


def read(pair: Pair, a: Side, b: Side, settings: Settings) -> Reading:
    time_a, point_a = _of_runs(pair.a, a)
    time_b, point_b = _of_runs(pair.b, b)
    floor = _floor(time_a, time_b, pair, settings)
    cycles = _cycles(point_a, point_b, time_a, time_b, floor)
    return Reading(pair, point_a, point_b, time_a, time_b, change(time_a, time_b, floor), cycles)


def clock_hz(point: Point) -> float | None:
    return point.clock.compute_hz if point.clock else None


def _of_runs(points: list[Point], side: Side) -> tuple[Estimate, Point]:
    """Of repeated runs together, and the run that stands for them."""
    estimates = [side.estimate(point) for point in points]
    whole = combined(estimates)
    nearest = min(zip(points, estimates, strict=True), key=lambda pair: abs(pair[1].median_s - whole.median_s))
    return whole, nearest[0]


def _floor(a: Estimate, b: Estimate, pair: Pair, settings: Settings) -> float:
    """As given; more where a flag says that the time is not to be trusted, or few samples spread far, and no repeated
    runs say how little that means: what moves samples within a run moves whole runs too, and a short run has not seen
    all of it."""
    if settings.measured_floor is not None:
        return settings.least_floor
    least = max(settings.floor, _unseen(a), _unseen(b))
    if any(flag.name in DISTURBED for point in (*pair.a, *pair.b) for flag in point.flags):
        least = max(least, settings.disturbed_floor, a.quartiles or 0.0, b.quartiles or 0.0)
    return least


def _unseen(time: Estimate) -> float:
    """The spread of the samples where there are up to ENOUGH independent ones, then less with the root of their
    number."""
    return (time.spread or 0.0) * min(1.0, math.sqrt(ENOUGH / time.independent))


def _cycles(a: Point, b: Point, time_a: Estimate, time_b: Estimate, floor: float) -> Change | None:
    """The change of time x clock: for points that the compute units bind, where both clocks are known."""
    if not all(point.placement and point.placement.bound in COMPUTE for point in (a, b)):
        return None
    counts = [_in_cycles(point, found) for point, found in ((a, time_a), (b, time_b))]
    return change(counts[0], counts[1], floor) if counts[0] and counts[1] else None


def _in_cycles(point: Point, time: Estimate) -> Estimate | None:
    clock = point.clock
    if clock is None or not clock.compute_hz:
        return None
    error = time.error
    if clock.before_hz and clock.after_hz:  # half of how far the clock moved meanwhile
        error = math.hypot(error, (clock.after_hz - clock.before_hz) / 2 / clock.compute_hz)
    return msgspec.structs.replace(time, median_s=time.median_s * clock.compute_hz, error=error)
