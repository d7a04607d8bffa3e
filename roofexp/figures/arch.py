"""The arch line of energy: joules per FLOP as a part for the arithmetic and a part for each byte.

After Choi, Bedard, Fowler, Vuduc: "A Roofline Model of Energy" (IPDPS 2013): J/FLOP = a + b / intensity. Its constants
are not looked up here: they are read from the best points measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

LEAST_POINTS = 3
LEAST_SPAN = 10.0  # largest over smallest intensity: less does not tell arithmetic from bytes


class Arch(NamedTuple):
    """``a`` in J/FLOP and ``b`` in J/B, both with their share of what the device takes when idle."""

    a: float
    b: float

    def flop_per_j(self, intensity: float) -> float:
        return 1.0 / (self.a + self.b / intensity)


def arch_line(intensities: Sequence[float], flop_per_j: Sequence[float]) -> Arch | None:
    """The lowest arch that no point lies above; None for fewer than three points or less than a decade of intensity.

    Over u = 1 / intensity the points are e = J/FLOP, and the arch is a straight line below all of them: an edge of
    their lower hull, or a line of one part alone. Taken is the one nearest to the points on the whole.
    """
    known = sorted({(1 / x, 1 / y) for x, y in zip(intensities, flop_per_j, strict=True) if x > 0 and y > 0})
    if len(known) < LEAST_POINTS or known[-1][0] < LEAST_SPAN * known[0][0]:
        return None
    lines = [Arch(min(e for _, e in known), 0.0), Arch(0.0, min(e / u for u, e in known))]
    for (u0, e0), (u1, e1) in itertools.pairwise(_lower_hull(known)):
        b = (e1 - e0) / (u1 - u0)
        if b >= 0 and e0 >= b * u0:
            lines.append(Arch(e0 - b * u0, b))
    return max(lines, key=lambda line: sum((line.a + line.b * u) / e for u, e in known))


def _lower_hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Andrew's monotone chain, the lower half; ``points`` ascend."""
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) > 1 and _turn(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        if hull and hull[-1][0] == point[0]:
            continue  # of points above each other the lowest came first
        hull.append(point)
    return hull


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
