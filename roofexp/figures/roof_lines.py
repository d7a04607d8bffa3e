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
CEILINGS = 4  # compute ceilings that fit without a crowd
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
        """Whether the points held clocks far enough apart; shown for what they are compared with alone."""
        return self.main and self.high > BAND * self.low


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
    """Every measured bandwidth; the compute roofs of the precisions present; the ceilings of the highest of them."""
    if roofs is None:
        return RoofLines([], [])
    bandwidth = _bandwidth(roofs, frame)
    compute = []
    for precision in precisions or _measured_precisions(roofs):
        best = roofs.compute(precision)
        held = _held_under(best, bandwidth[0] if bandwidth else None, frame, precision)
        for roof in roofs.roofs:
            if roof.kind == "compute" and roof.precision == precision:
                compute.append(_line(roof, held, main=roof is best))
    return _thinned(bandwidth, compute, frame)


def _bandwidth(roofs: RoofSet, frame: DataFrame) -> list[RoofLine]:
    """The main level's roof first. Ceilings of other levels would crowd the figure; the table of roofs has them."""
    level = main_level(frame)
    used = {*frame["traffic_level"], level}
    shown = [r for r in roofs.roofs if r.kind == "bandwidth" and (r.ceiling_of is None or r.level == level)]
    shown.sort(key=lambda roof: (roof.level != level, roof.ceiling_of is not None, _depth(roof)))
    held = held_clocks(frame)
    return [_line(roof, held, main=roof.level in used) for roof in shown]


def _held_under(best: Roof | None, bandwidth: RoofLine | None, frame: DataFrame, precision: str) -> Held | None:
    """The clocks of the points that the compute roof is there for: past the ridge. Where none is: of the precision,
    and else of all. (A power-limited chip holds quite another clock while it waits for memory.)"""
    rows = frame[frame["precision"] == precision]
    if best is not None and bandwidth is not None:
        past = rows[rows["intensity_flop_per_byte"] * bandwidth.rate >= best.rate]
        rows = past if len(past) else rows
    return held_clocks(rows) or held_clocks(frame)


def _measured_precisions(roofs: RoofSet) -> list[str]:
    found = [roof.precision for roof in roofs.roofs if roof.kind == "compute" and roof.precision]
    return list(dict.fromkeys(found))


def _thinned(bandwidth: list[RoofLine], compute: list[RoofLine], frame: DataFrame) -> RoofLines:
    """Leaves out ceilings that would crowd the figure: those of lower roofs, and where still too many are left, of all
    but the most frequent precision."""
    highest = {line.roof.name for line in compute if line.main}
    kept = [line for line in compute if not line.ceiling or line.roof.ceiling_of in highest]
    if sum(line.ceiling for line in kept) > CEILINGS:
        often = frame["precision"].value_counts().index[0]
        kept = [line for line in kept if not line.ceiling or line.roof.precision == often]
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
