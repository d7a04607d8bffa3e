"""The title, the line under it and the footnotes of a figure, and the knee of a traced kernel that the title tells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.figures.canvas.frame import flag_names, held_clocks, precisions, short_name
from roofexp.figures.canvas.roof_lines import RoofLines
from roofexp.figures.canvas.style import joined, shortened
from roofexp.records.machine import RoofSet
from roofexp.text.numbers import engineering, percent, plain, size_name, span

if TYPE_CHECKING:
    from pandas import DataFrame, Series

LEAST_POINTS = 5
REACH = 2.0  # the points must lie this factor below and above the ridge


class Knee(NamedTuple):
    """Where the trace of a kernel passes the ridge (FLOP/B), between its two measured neighbours: at least ``low`` and
    at most ``high`` FLOP/s, under the corner of the roofs.

    A trace is concave on log axes, so that a straight line between the neighbours stays below it; its share of the
    roofs dips at the ridge, so that a straight line between the neighbours' shares stays above it.
    """

    kernel: str
    precision: str
    ridge: float
    low: float
    high: float
    corner: float

    @property
    def below(self) -> tuple[float, float]:
        """The least and the most that may be missing to the corner, as shares of it."""
        return max(0.0, 1 - self.high / self.corner), max(0.0, 1 - self.low / self.corner)


def knees(rows: DataFrame, lines: RoofLines) -> list[Knee]:
    """Of each kernel, precision and setting with at least five intensities at one size on both sides of the ridge."""
    main, knees = lines.main_bandwidth, []
    same = ["kernel", "precision", "size", "implementation", "cache_state", "held_by", "fill"]
    for line in lines.plateaus if main else []:
        assert main
        ridge = line.rate / main.rate
        of_precision = rows[rows["precision"] == line.roof.precision]
        for (kernel, precision, *_), trace in of_precision.groupby(same, sort=False):
            x = trace["intensity_flop_per_byte"]
            if x.nunique() >= LEAST_POINTS and x.min() * REACH <= ridge <= x.max() / REACH:
                low, high = _between(trace, ridge, main.rate)
                knees.append(Knee(str(kernel), str(precision), ridge, low, high, line.rate))
    return knees


def _between(rows: DataFrame, ridge: float, bandwidth: float) -> tuple[float, float]:
    """FLOP/s at the ridge by the straight line between its neighbours' rates, and by that between their shares."""
    ordered = rows.sort_values("intensity_flop_per_byte", kind="stable")
    path = list(zip(ordered["intensity_flop_per_byte"], ordered["flops_per_s"], strict=True))
    (x0, y0), (x1, y1) = next(pair for pair in itertools.pairwise(path) if pair[0][0] <= ridge < pair[1][0])
    part = math.log(ridge / x0) / math.log(x1 / x0)
    chord = y0 * (y1 / y0) ** part
    corner = bandwidth * ridge
    shares = y0 / (bandwidth * x0), y1 / corner
    return float(chord), float(corner * shares[0] * (shares[1] / shares[0]) ** part)


def roofline_title(drawn: DataFrame) -> str:
    """One sentence that says what to see, from the fractions and verdicts of the drawn points."""
    placed = drawn[drawn["fraction"] > 0]
    if drawn.empty:
        return "Roofs of this machine; no point with a positive rate"
    if placed.empty:
        return f"{count(len(drawn), 'point')}, not compared with any roof"
    ranked = placed.sort_values("fraction", kind="stable")
    best, worst = ranked.iloc[-1], ranked.iloc[0]
    if len(placed) == 1:
        return f"{short_name(best)} reaches {_share(best)}"
    if placed["kernel"].nunique() == 1:
        ends = [f"{_share(best)} at {_what(best, drawn)}", f"{percent(worst['fraction'])} at {_what(worst, drawn)}"]
        return f"{shortened(best['kernel'], 40)}: {', '.join(ends)}"
    return _several(placed, worst)


def knee_title(knees: Sequence[Knee], drawn: DataFrame) -> str:
    """How far below the ideal corner a traced kernel passes the ridge; "" where other kernels are there too."""
    if not knees or {knee.kernel for knee in knees} != set(drawn["kernel"]):
        return ""
    several = len(knees) > 1
    parts = []
    for knee in knees[:3]:
        corner = f"{knee.precision} corner" if several else "corner"
        least, most = (percent(share) for share in knee.below)
        missing = most if least == most else f"{least.removesuffix(' %')} to {most}"
        parts.append(f"{missing} below the {corner} at {plain(knee.ridge)} FLOP/B")
    return f"{shortened(knees[0].kernel, 30)} passes the ridge {joined(parts)}"


def machine_line(drawn: DataFrame, roofs: RoofSet | None) -> str:
    """Machine, precisions and clocks held, joined by middle dots."""
    names = drawn["machine_name"].where(drawn["machine_name"] != "", drawn["machine_id"])
    name = roofs.machine.name if roofs else joined(sorted(set(names) - {""})) or "unknown machine"
    held = held_clocks(drawn)
    clocks = f"clock held {span(held.low, held.high, 'Hz')}" if held else "clock held unknown"
    if of_sheet(roofs) and not held:
        assert roofs
        clocks = f"boost clock {engineering(roofs.machine.nominal_hz, 'Hz')}" if roofs.machine.nominal_hz else ""
    modes = joined(sorted(set(drawn["clock_mode"]) - {""}))
    caches = joined(sorted(set(drawn["cache_state"]) - {""}))
    parts = [
        name,
        joined(precisions(drawn)),
        f"{clocks} ({modes})" if modes and clocks else clocks,
        f"{caches} caches" if caches else "",
    ]
    return " · ".join(part for part in parts if part)


def of_sheet(roofs: RoofSet | None) -> bool:
    """Whether they are a published card's limits, which nobody measured and no clock was held for."""
    return roofs is not None and not roofs.measured and all(roof.sheet == roof.rate for roof in roofs.roofs)


def roofs_note(roofs: RoofSet | None, lines: RoofLines) -> str:
    """Where the roofs come from, at which clock they stand, and what of them is not drawn."""
    if roofs is None or not roofs.roofs:
        return "No roofs were measured for these points."
    bands = any(line.has_band for line in lines.compute)
    clock = "at the median clock held, bands over all clocks held" if bands else "drawn at the clock held"
    if of_sheet(roofs):
        return "Roofs: the card's published limits, dense, at its boost clock; not measured."
    if not roofs.measured:
        return f"Roofs: what the hardware could do by arithmetic, not measured; {clock}."
    left_out = f" {lines.left_out} more ceilings are in roofs.json." if lines.left_out else ""
    return f"Roofs: measured on this machine on {roofs.measured[:10]}, {clock}.{left_out}"


def traffic_note(drawn: DataFrame) -> str:
    """What is hollow and what is filled."""
    sources = set(drawn["traffic_source"]) - {""}
    if not sources:
        return ""
    if sources == {"modelled"}:
        return "Traffic: modelled from each kernel's formulas, not counted (hollow marks)."
    if sources == {"counted"}:
        return "Traffic: counted by the hardware (filled marks)."
    return "Traffic: filled marks counted by the hardware, hollow ones modelled from the kernel's formulas."


def flags_note(drawn: DataFrame) -> str:
    names = sorted({name for flags in drawn["flags"] for name in flag_names(flags)})
    return f"Ringed: flagged ({joined(names, 8)})." if names else ""


def names_note(count: int, most: int) -> str:
    return (
        f"At most {most} of {count} points are named here, all of them in the SVG under the mouse."
        if count > most
        else ""
    )


def _several(placed: DataFrame, worst: Series[Any]) -> str:
    on_roof = placed["bound"].str.startswith("on the").sum()
    above = (placed["bound"] == "above a roof").sum()
    start = f"{on_roof} of {len(placed)}" if on_roof < len(placed) else f"All {on_roof}"
    start += f" points lie on {'their' if on_roof != 1 else 'its'} roof"
    if above:
        start += f", {above} above one"
    return f"{start}; farthest below: {short_name(worst)} at {percent(worst['fraction'])}"


def _share(row: Series[Any]) -> str:
    return f"{percent(row['fraction'])} of {_roof(row)}"


def _roof(row: Series[Any]) -> str:
    if not row["roof"]:
        return "what the roofs allow"
    return f"the {row['roof'].upper() if len(row['roof']) <= 4 else row['roof']} roof"


def _what(row: Series[Any], drawn: DataFrame) -> str:
    """Tells one point of a kernel from the others of it."""
    words = [f"size {size_name(row['size'])}"] if drawn["size"].nunique() > 1 else []
    for name in ("precision", "varying_params"):
        if drawn[name].nunique() > 1 and row[name] and row[name] not in row["roof"]:
            words.append(row[name])
    return " ".join(words) or short_name(row)


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
