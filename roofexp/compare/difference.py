"""What differs between two runs of one thing, and whether the code or the clock did it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from roofexp.compare.matching import Pair, described
from roofexp.compare.reading import Reading, Settings, clock_hz, read
from roofexp.compare.side import Side
from roofexp.compare.significance import Estimate, holm
from roofexp.compare.words import label, message, varying_params
from roofexp.point import Point

Verdict = Literal[
    "slower", "faster", "slower by the clock", "faster by the clock", "slower in cycles", "faster in cycles",
    "unchanged", "unresolved",
]  # fmt: skip
CHANGED: tuple[Verdict, ...] = ("slower", "faster", "slower in cycles", "faster in cycles")
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
    verdict: Verdict
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
    pairs: Sequence[Pair], a: Side, b: Side, settings: Settings, across: Sequence[str] = ()
) -> list[Difference]:
    """Every pair judged, with one Holm family over all tests of time and of cycles."""
    readings = [read(pair, a, b, settings) for pair in pairs]
    tests = [reading.time for reading in readings] + [r.cycles for r in readings if r.cycles is not None]
    rejected = iter(holm([test.p_value for test in tests], settings.level))
    times = [next(rejected) for _ in readings]
    cycles = [next(rejected) if reading.cycles is not None else False for reading in readings]
    varying = varying_params([reading.a for reading in readings])
    return [
        _judged(reading, changed, settings, across, varying.get(reading.a.kernel, set()))
        for reading, changed in zip(readings, zip(times, cycles, strict=True), strict=True)
    ]


def _judged(
    reading: Reading, changed: tuple[bool, bool], settings: Settings, across: Sequence[str], varying: set[str]
) -> Difference:
    low, high = (max(min(end, FARTHEST), -FARTHEST) for end in reading.time.interval(SHOWN_LEVEL))
    verdict = _verdict(reading, changed, max(abs(low), abs(high)), settings)
    a = _values(reading.a, reading.a_time, reading.pair.a)
    b = _values(reading.b, reading.b_time, reading.pair.b)
    cycles = reading.cycles
    return Difference(
        label=label(reading.a, varying),
        kernel=reading.a.kernel,
        size=reading.a.size,
        precision=reading.a.precision,
        verdict=verdict,
        message=message(verdict, reading, max(math.expm1(high), -math.expm1(low))),
        a=a,
        b=b,
        time_ratio=math.exp(reading.time.log_ratio),
        low=math.exp(low),
        high=math.exp(high),
        floor=math.expm1(reading.time.floor),
        p_value=reading.time.p_value,
        significant=changed[0],
        rate_ratio=_ratio(a.rate_per_s, b.rate_per_s) if a.rate_unit == b.rate_unit else None,
        intensity_ratio=_ratio(a.intensity_flop_per_byte, b.intensity_flop_per_byte),
        fraction_change=None if a.fraction is None or b.fraction is None else b.fraction - a.fraction,
        cycles_ratio=math.exp(cycles.log_ratio) if cycles else None,
        cycles_p_value=cycles.p_value if cycles else None,
        cycles_significant=changed[1] if cycles else None,
        differs=_differs(reading.a, reading.b, across),
    )


def _verdict(reading: Reading, changed: tuple[bool, bool], reach: float, settings: Settings) -> Verdict:
    """``changed``: time and cycles, beyond noise; ``reach``: how far from no change the interval of time goes."""
    cycles = reading.cycles
    if changed[0]:
        longer = reading.time.log_ratio > 0
        if cycles and not changed[1] and abs(cycles.log_ratio) < abs(reading.time.log_ratio) / 2:
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
        compute_hz=clock_hz(point),
        flags=sorted({flag.name for run in runs for flag in run.flags}),
    )


def _differs(a: Point, b: Point, across: Sequence[str]) -> dict[str, list[str]]:
    found = {name: [described(a, [name]), described(b, [name])] for name in across}
    found["implementation"] = [a.implementation or "unknown", b.implementation or "unknown"]
    return {name: values for name, values in found.items() if values[0] != values[1]}


def _ratio(a: float | None, b: float | None) -> float | None:
    return b / a if a and b else None
