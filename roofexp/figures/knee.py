"""How far below the ideal corner a kernel of varying intensity passes the ridge. Pure: points and roofs in."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from roofexp.figures.roof_lines import RoofLines

if TYPE_CHECKING:
    from pandas import DataFrame

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
    main, found = lines.main_bandwidth, []
    same = ["kernel", "precision", "size", "implementation", "cache_state", "held_by", "fill"]
    for line in lines.plateaus if main else []:
        assert main
        ridge = line.rate / main.rate
        of_precision = rows[rows["precision"] == line.roof.precision]
        for (kernel, precision, *_), each in of_precision.groupby(same, sort=False):
            x = each["intensity_flop_per_byte"]
            if x.nunique() >= LEAST_POINTS and x.min() * REACH <= ridge <= x.max() / REACH:
                low, high = _between(each, ridge, main.rate)
                found.append(Knee(str(kernel), str(precision), ridge, low, high, line.rate))
    return found


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
