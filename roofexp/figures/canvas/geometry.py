"""Rectangles that may be turned, and straight lines, on the display: what overlaps, crosses or lies inside. Pixels."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import numpy
from numpy.typing import NDArray

Points = NDArray[numpy.float64]  # n x 2
Number = TypeVar("Number", float, NDArray[numpy.float64])


class Segment(NamedTuple):
    """A straight line."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def length(self) -> float:
        return math.hypot(self.x1 - self.x0, self.y1 - self.y0)

    @property
    def angle(self) -> float:
        return math.degrees(math.atan2(self.y1 - self.y0, self.x1 - self.x0))

    def at(self, share: float) -> tuple[float, float]:
        return self.x0 + share * (self.x1 - self.x0), self.y0 + share * (self.y1 - self.y0)

    def clipped(self, x: tuple[float, float], y: tuple[float, float]) -> Segment | None:
        """The part inside an upright rectangle (Liang and Barsky, 1984); None where none is."""
        first, last = 0.0, 1.0
        dx, dy = self.x1 - self.x0, self.y1 - self.y0
        for step, gap in ((-dx, self.x0 - x[0]), (dx, x[1] - self.x0), (-dy, self.y0 - y[0]), (dy, y[1] - self.y0)):
            if step == 0:
                if gap < 0:
                    return None
            elif step < 0:
                first = max(first, gap / step)
            else:
                last = min(last, gap / step)
        return Segment(*self.at(first), *self.at(last)) if first <= last else None


class Box(NamedTuple):
    """A rectangle: centre, half width, half height, angle in degrees."""

    x: float
    y: float
    half_width: float
    half_height: float
    angle: float = 0.0

    def grown(self, by: float) -> Box:
        return self._replace(half_width=self.half_width + by, half_height=self.half_height + by)

    def reach(self, degrees: float) -> float:
        """How far the box reaches from its centre in a direction."""
        turn = math.radians(degrees - self.angle)
        return self.half_width * abs(math.cos(turn)) + self.half_height * abs(math.sin(turn))

    def overlaps(self, other: Box) -> bool:
        """Whether both share any area: no side of either separates them."""
        dx, dy = other.x - self.x, other.y - self.y
        for degrees in (self.angle, self.angle + 90, other.angle, other.angle + 90):
            turn = math.radians(degrees)
            if abs(dx * math.cos(turn) + dy * math.sin(turn)) >= self.reach(degrees) + other.reach(degrees):
                return False
        return True

    def within(self, x: tuple[float, float], y: tuple[float, float]) -> bool:
        wide, high = self.reach(0), self.reach(90)
        return x[0] <= self.x - wide and self.x + wide <= x[1] and y[0] <= self.y - high and self.y + high <= y[1]

    def crossed_by(self, line: Segment) -> bool:
        turned = Segment(*self._local(line.x0, line.y0), *self._local(line.x1, line.y1))
        part = turned.clipped((-self.half_width, self.half_width), (-self.half_height, self.half_height))
        return part is not None

    def crossed_by_each(self, lines: Points) -> NDArray[numpy.bool_]:
        """The same for many lines (n x 4: both ends)."""
        x, y = self._local(lines[:, 0::2], lines[:, 1::2])
        first, last = numpy.zeros(len(lines)), numpy.ones(len(lines))
        outside = numpy.zeros(len(lines), dtype=bool)
        for along, half in ((x, self.half_width), (y, self.half_height)):
            step = along[:, 1] - along[:, 0]
            level = step == 0
            outside |= level & (abs(along[:, 0]) > half)
            safe = numpy.where(level, 1.0, step)
            near, far = (-half - along[:, 0]) / safe, (half - along[:, 0]) / safe
            first = numpy.where(level, first, numpy.maximum(first, numpy.minimum(near, far)))
            last = numpy.where(level, last, numpy.minimum(last, numpy.maximum(near, far)))
        crossed: NDArray[numpy.bool_] = ~outside & (first <= last)
        return crossed

    def holds(self, points: Points) -> int:
        """How many of the points lie inside."""
        along, across = self._local(points[:, 0], points[:, 1])
        return int(((abs(along) < self.half_width) & (abs(across) < self.half_height)).sum())

    def nearest(self, x: float, y: float) -> tuple[float, float]:
        """The point of an upright box that is nearest to a point."""
        return (
            min(max(x, self.x - self.half_width), self.x + self.half_width),
            min(max(y, self.y - self.half_height), self.y + self.half_height),
        )

    def _local(self, x: Number, y: Number) -> tuple[Number, Number]:
        """Coordinates along the box and across it."""
        turn = math.radians(self.angle)
        dx, dy = x - self.x, y - self.y
        return dx * math.cos(turn) + dy * math.sin(turn), dy * math.cos(turn) - dx * math.sin(turn)


def crossing(first: Segment, second: Segment) -> bool:
    """Whether two lines cross."""
    dx, dy = first.x1 - first.x0, first.y1 - first.y0
    sides = [dx * (y - first.y0) - dy * (x - first.x0) for x, y in ((second.x0, second.y0), (second.x1, second.y1))]
    ex, ey = second.x1 - second.x0, second.y1 - second.y0
    others = [ex * (y - second.y0) - ey * (x - second.x0) for x, y in ((first.x0, first.y0), (first.x1, first.y1))]
    return sides[0] * sides[1] < 0 and others[0] * others[1] < 0
