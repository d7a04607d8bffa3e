"""Which roofs a figure draws, at which clock, and the words that stand on their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from roofexp.figures.frame import Held, held_clocks
from roofexp.figures.style import shortened
from roofexp.machine import Roof, RoofSet
from roofexp.units import engineering, percent

if TYPE_CHECKING:
    from pandas import DataFrame

LEVELS = ("dram", "l3", "l2", "l1")
CEILINGS = 6  # compute ceilings that fit without a crowd
BAND = 1.02  # clocks further apart than this are drawn as a band


class RoofLine(msgspec.Struct, frozen=True, kw_only=True):
    """A roof to be drawn: FLOP/s of a plateau or B/s of a diagonal, at the clock held and at both ends of its range."""

    roof: Roof
    rate: float
    low: float
    high: float
    clock_hz: float | None
    main: bool  # what the points are compared with; the others stand by in grey
    texts: list[str]  # the words on the line, and shorter ones for want of room

    @property
    def ceiling(self) -> bool:
        return self.roof.ceiling_of is not None

    @property
    def has_band(self) -> bool:
        return self.high > BAND * self.low


class RoofLines(msgspec.Struct, frozen=True):
    bandwidth: list[RoofLine]
    compute: list[RoofLine]
    left_out: int = 0  # ceilings measured and not drawn

    @property
    def main_bandwidth(self) -> RoofLine | None:
        return next((line for line in self.bandwidth if line.main and not line.ceiling), None)

    @property
    def plateaus(self) -> list[RoofLine]:
        """The highest compute roof of each precision."""
        return [line for line in self.compute if line.main and not line.ceiling]

    @property
    def highest(self) -> RoofLine | None:
        """The compute roof that all diagonals end at."""
        return max((line for line in self.compute if not line.ceiling), key=lambda line: line.rate, default=None)


def main_level(frame: DataFrame) -> str:
    """The memory level that most points are counted at."""
    levels = [level for level in frame["traffic_level"] if level]
    return max(dict.fromkeys(levels), key=levels.count, default="dram")


def roof_lines(roofs: RoofSet | None, frame: DataFrame, precisions: list[str]) -> RoofLines:
    """Every measured bandwidth; the compute roofs of the precisions present; the ceilings of both."""
    if roofs is None:
        return RoofLines([], [])
    bandwidth = []
    level = main_level(frame)
    used = set(frame["traffic_level"]) | {level}
    overall = held_clocks(frame)
    for roof in sorted((r for r in roofs.roofs if r.kind == "bandwidth"), key=_depth):
        # ceilings of the caches would crowd the figure; the table of roofs has them
        if roof.ceiling_of is None or roof.level == level:
            bandwidth.append(_line(roof, overall, main=roof.level in used))
    bandwidth.sort(key=lambda line: (line.roof.level != level, line.ceiling))
    compute = []
    for precision in precisions or [
        roof.precision for roof in roofs.roofs if roof.kind == "compute" and roof.precision
    ]:
        best = roofs.compute(precision)
        for roof in roofs.roofs:
            if roof.kind == "compute" and roof.precision == precision:
                compute.append(_line(roof, held_clocks(frame, precision) or overall, main=roof is best))
    return _thinned(bandwidth, _once(compute), frame)


def _thinned(bandwidth: list[RoofLine], compute: list[RoofLine], frame: DataFrame) -> RoofLines:
    """Leaves out the ceilings of all but the most frequent precision where they would crowd the figure."""
    if sum(line.ceiling for line in compute) <= CEILINGS:
        return RoofLines(bandwidth, compute)
    counts = frame["precision"].value_counts()
    kept = [line for line in compute if not line.ceiling or line.roof.precision == counts.index[0]]
    return RoofLines(bandwidth, kept, left_out=len(compute) - len(kept))


def roof_texts(roof: Roof, rate: float) -> list[str]:
    """The words on the line, for instance ``fp32 fma 65.1 TFLOP/s, 98 % of limit``, and shorter ones."""
    value = engineering(rate, "FLOP/s" if roof.kind == "compute" else "B/s")
    if roof.ceiling_of is not None:
        name = _ceiling_name(roof)
        return [f"{name} {value}", name]
    name = roof.name.upper() if roof.kind == "bandwidth" and roof.name in LEVELS else shortened(roof.name, 28)
    short = f"{name} {'at least ' if roof.incomplete else ''}{value}"
    return [*([f"{short}, {percent(roof.rate / roof.limit)} of limit"] if roof.limit else []), short, name]


def _ceiling_name(roof: Roof) -> str:
    of = (roof.precision if roof.kind == "compute" else (roof.level or "").upper()) or ""
    cause = shortened(roof.cause or roof.name, 32)
    return cause if of and of.lower() in cause.lower() else f"{of} {cause}".strip()


def _line(roof: Roof, held: Held | None, main: bool) -> RoofLine:
    clocks = held or Held(roof.compute_hz or 0.0, roof.compute_hz or 0.0, roof.compute_hz or 0.0)
    moves = roof.clock_domain == "compute" and roof.compute_hz
    rate = roof.at(clocks.median)
    return RoofLine(
        roof=roof,
        rate=rate,
        low=roof.at(clocks.low),
        high=roof.at(clocks.high),
        clock_hz=(clocks.median or None) if moves else roof.compute_hz,
        main=main and roof.ceiling_of is None,
        texts=roof_texts(roof, rate),
    )


def _depth(roof: Roof) -> int:
    return LEVELS.index(roof.level) if roof.level in LEVELS else len(LEVELS)


def _once(lines: list[RoofLine]) -> list[RoofLine]:
    return list({(line.roof.name, line.roof.ceiling_of): line for line in lines}.values())
