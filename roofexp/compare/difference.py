"""A pair of points with its tests of time and cycles, its verdict and the words that explain it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from roofexp.compare.matching import Pair, Side, described
from roofexp.compare.significance import Change, Estimate, change, combined, holm
from roofexp.records.point import Point
from roofexp.text.numbers import engineering, percent, signed, size_name

COMPUTE = ("compute-bound", "on the compute roof")
ENOUGH = 5  # independent samples; more make a spread matter less
# flags of times that other programs or the timer took part in
DISTURBED = ("machine not quiet", "held back by the quota", "fewer cores than threads", "too short")


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
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


class TestedPair(msgspec.Struct, frozen=True):
    """``a`` and ``b`` stand for their runs; the tests are before any correction for their number."""

    pair: Pair
    a: Point
    b: Point
    a_time: Estimate
    b_time: Estimate
    time: Change
    cycles: Change | None


def test_pair(pair: Pair, a: Side, b: Side, settings: Thresholds) -> TestedPair:
    time_a, point_a = _of_runs(pair.a, a)
    time_b, point_b = _of_runs(pair.b, b)
    floor = _floor(time_a, time_b, pair, settings)
    cycles = _cycles(point_a, point_b, time_a, time_b, floor)
    return TestedPair(pair, point_a, point_b, time_a, time_b, change(time_a, time_b, floor), cycles)


def _of_runs(points: list[Point], side: Side) -> tuple[Estimate, Point]:
    """Of repeated runs together, and the run that stands for them."""
    estimates = [side.estimate(point) for point in points]
    whole = combined(estimates)
    nearest = min(zip(points, estimates, strict=True), key=lambda pair: abs(pair[1].median_s - whole.median_s))
    return whole, nearest[0]


def _floor(a: Estimate, b: Estimate, pair: Pair, settings: Thresholds) -> float:
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
    counts = [_in_cycles(point, time) for point, time in ((a, time_a), (b, time_b))]
    return change(counts[0], counts[1], floor) if counts[0] and counts[1] else None


def _in_cycles(point: Point, time: Estimate) -> Estimate | None:
    clock = point.clock
    if clock is None or not clock.compute_hz:
        return None
    error = time.error
    if clock.before_hz and clock.after_hz:  # half of how far the clock moved meanwhile
        error = math.hypot(error, (clock.after_hz - clock.before_hz) / 2 / clock.compute_hz)
    return msgspec.structs.replace(time, median_s=time.median_s * clock.compute_hz, error=error)


ChangeVerdict = Literal[
    "slower", "faster", "slower by the clock", "faster by the clock", "slower in cycles", "faster in cycles",
    "unchanged", "unresolved",
]  # fmt: skip

CHANGED: tuple[ChangeVerdict, ...] = ("slower", "faster", "slower in cycles", "faster in cycles")
SHOWN_LEVEL = 0.05  # intervals are those of 95 %
RESOLVED = 2.0  # "unchanged": the interval stays within so many floors
FARTHEST = 700.0  # as ln: what a float can hold


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a pair. SI units; None is unknown. Of repeated runs the time is the median of all, the rest that of
    the run nearest to it."""

    job: int
    runs: int
    samples: int
    time_s: float
    rate_per_s: float | None
    rate_unit: str
    intensity_flop_per_byte: float | None
    fraction: float | None
    roof: str | None
    bound: str | None
    compute_hz: float | None
    flags: list[str]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """B against A. ``time_ratio`` and ``cycles_ratio`` are B / A; ``low`` and ``high`` bound ``time_ratio`` (95 %)."""

    label: str
    kernel: str
    size: int
    precision: str
    verdict: ChangeVerdict
    message: str
    a: Values
    b: Values
    time_ratio: float
    low: float
    high: float
    floor: float
    p_value: float
    significant: bool
    rate_ratio: float | None
    intensity_ratio: float | None
    fraction_change: float | None
    cycles_ratio: float | None
    cycles_p_value: float | None
    cycles_significant: bool | None
    differs: dict[str, list[str]] = {}  # what else differs, [A, B]: implementation, and what was compared across

    @property
    def slowdown(self) -> float:
        """0.03: B takes 3 % longer."""
        return self.time_ratio - 1


def differences(
    pairs: Sequence[Pair], a: Side, b: Side, settings: Thresholds, across: Sequence[str] = ()
) -> list[Difference]:
    """Every pair judged, with one Holm family over all tests of time and of cycles."""
    tested = [test_pair(pair, a, b, settings) for pair in pairs]
    changes = [pair.time for pair in tested] + [pair.cycles for pair in tested if pair.cycles is not None]
    rejected = iter(holm([test.p_value for test in changes], settings.level))
    times = [next(rejected) for _ in tested]
    cycles = [next(rejected) if pair.cycles is not None else False for pair in tested]
    varying = varying_params([pair.a for pair in tested])
    return [
        _judged(pair, changed, settings, across, varying.get(pair.a.kernel, set()))
        for pair, *changed in zip(tested, times, cycles, strict=True)
    ]


def _judged(
    tested: TestedPair, changed: list[bool], settings: Thresholds, across: Sequence[str], varying: set[str]
) -> Difference:
    low, high = (max(min(end, FARTHEST), -FARTHEST) for end in tested.time.interval(SHOWN_LEVEL))
    verdict = _verdict(tested, changed, max(abs(low), abs(high)), settings)
    a = _values(tested.a, tested.a_time, tested.pair.a)
    b = _values(tested.b, tested.b_time, tested.pair.b)
    cycles = tested.cycles
    return Difference(
        label=label(tested.a, varying),
        kernel=tested.a.kernel,
        size=tested.a.size,
        precision=tested.a.precision,
        verdict=verdict,
        message=message(verdict, tested, max(math.expm1(high), -math.expm1(low))),
        a=a,
        b=b,
        time_ratio=math.exp(tested.time.log_ratio),
        low=math.exp(low),
        high=math.exp(high),
        floor=math.expm1(tested.time.floor),
        p_value=tested.time.p_value,
        significant=changed[0],
        rate_ratio=_ratio(a.rate_per_s, b.rate_per_s) if a.rate_unit == b.rate_unit else None,
        intensity_ratio=_ratio(a.intensity_flop_per_byte, b.intensity_flop_per_byte),
        fraction_change=None if a.fraction is None or b.fraction is None else b.fraction - a.fraction,
        cycles_ratio=math.exp(cycles.log_ratio) if cycles else None,
        cycles_p_value=cycles.p_value if cycles else None,
        cycles_significant=changed[1] if cycles else None,
        differs=_differs(tested.a, tested.b, across),
    )


def _verdict(tested: TestedPair, changed: list[bool], reach: float, settings: Thresholds) -> ChangeVerdict:
    """``changed``: time and cycles, beyond noise; ``reach``: how far from no change the interval of time goes."""
    cycles = tested.cycles
    if changed[0]:
        longer = tested.time.log_ratio > 0
        if cycles and not changed[1] and abs(cycles.log_ratio) < abs(tested.time.log_ratio) / 2:
            return "slower by the clock" if longer else "faster by the clock"
        return "slower" if longer else "faster"
    if cycles and changed[1]:
        return "slower in cycles" if cycles.log_ratio > 0 else "faster in cycles"
    return "unchanged" if reach <= math.log1p(RESOLVED * settings.least_floor) else "unresolved"


def _values(point: Point, time: Estimate, runs: list[Point]) -> Values:
    place, flops = point.placement, point.work.flops if point.work else 0
    work = flops or (point.traffic.bytes if point.traffic else 0)
    return Values(
        job=point.job,
        runs=len(runs),
        samples=time.samples,
        time_s=time.median_s,
        rate_per_s=work / time.median_s if work else None,
        rate_unit="FLOP/s" if flops else "B/s",
        intensity_flop_per_byte=place.intensity_flop_per_byte if place else None,
        fraction=place.fraction if place else None,
        roof=place.roof if place else None,
        bound=place.bound if place else None,
        compute_hz=point.compute_hz,
        flags=sorted({flag.name for run in runs for flag in run.flags}),
    )


def _differs(a: Point, b: Point, across: Sequence[str]) -> dict[str, list[str]]:
    values = {name: [described(a, [name]), described(b, [name])] for name in across}
    values["implementation"] = [a.implementation or "unknown", b.implementation or "unknown"]
    return {name: pair for name, pair in values.items() if pair[0] != pair[1]}


def _ratio(a: float | None, b: float | None) -> float | None:
    return b / a if a and b else None


ORDINARY = ("cold", "observe", "normal")
CLOCK_MOVED = 0.005  # less is not worth a word


def message(verdict: str, tested: TestedPair, reach: float) -> str:
    """``reach``: how far from no change the interval goes, relative. Empty where the verdict says it all."""
    if verdict == "unresolved":
        return f"up to {percent(reach)} may hide in it"
    clock = clock_words(tested.a, tested.b)
    cycles = signed(math.expm1(tested.cycles.log_ratio)) if tested.cycles else ""
    if verdict.endswith("by the clock"):
        return f"{verdict.split()[0]} in time, equal in cycles ({cycles}): {clock}"
    if verdict.endswith("in cycles"):
        return f"equal in time, {cycles} cycles: {clock or 'the clock moved'}"
    if verdict == "unchanged" or not clock:
        return ""
    if cycles:
        return f"{clock}; in cycles {cycles}"
    memory = all(point.placement and "bandwidth" in point.placement.bound for point in (tested.a, tested.b))
    return f"{clock}, but memory binds" if memory else clock


def clock_words(a: Point, b: Point) -> str:
    """``the clock fell from 1.98 GHz to 1.74 GHz``; empty where it stayed or is unknown."""
    before, after = a.compute_hz, b.compute_hz
    if not before or not after or abs(after / before - 1) < CLOCK_MOVED:
        return ""
    word = "rose" if after > before else "fell"
    return f"the clock {word} from {engineering(before, 'Hz')} to {engineering(after, 'Hz')}"


def label(point: Point, varying: set[str]) -> str:
    """Kernel, size, precision, and what else is out of the ordinary; ``varying``: the parameters worth naming."""
    name = [point.kernel, size_name(point.size), point.precision]
    words = [*name, *(f"{key}={value}" for key, value in sorted(point.params.items()) if key in varying)]
    return " ".join([*words, *unusual(point)])


def unusual(point: Point) -> list[str]:
    """The cache state, clock mode and fill of a point, where they are not the ordinary ones."""
    return [word for word in (point.cache_state, point.clock_mode, point.fill) if word not in ORDINARY]


def varying_params(points: Sequence[Point]) -> dict[str, set[str]]:
    """By kernel, the parameters that tell its points apart."""
    seen: dict[str, dict[str, set[str]]] = {}
    for point in points:
        for key, value in point.params.items():
            seen.setdefault(point.kernel, {}).setdefault(key, set()).add(str(value))
    return {kernel: {key for key, values in params.items() if len(values) > 1} for kernel, params in seen.items()}
