"""Words beside lines and points that never cover each other. Geometry in display pixels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from roofexp.figures.canvas.geometry import Box, Segment, crossing
from roofexp.figures.canvas.page import drawing_of
from roofexp.figures.canvas.style import CEILING, FADED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text
    from numpy.typing import NDArray

# What a place costs, in line heights of distance from where words would best stand. Lines weigh as they are drawn with.
COVERS_MARK, NEARER_TO_ANOTHER, CROSSES_LEADER = 8.0, 4.0, 3.0
LOST_WORDS = 1.5  # what each shortening costs
TOLERABLE = 4.0  # words that cost more are tried shorter


class LabelCanvas:
    """One axes' area: what is taken by words, by points and by lines, and what still is free."""

    def __init__(self, axes: Axes, marks: Sequence[tuple[float, float]], mark_pt: float, plates: bool = True) -> None:
        """``plates``: whether words stand on a plate of the axes' colour."""
        self.axes, self.plates, self.drawing = axes, plates, drawing_of(axes)
        self.font = self.drawing.settings.font_pt
        self.pixels_per_pt = axes.figure.dpi / 72
        self.mark = 0.7 * mark_pt * self.pixels_per_pt  # corners and rings reach past half the size
        self.marks = axes.transData.transform(_array(marks)) if marks else _array([])
        self.lines: list[tuple[Segment, float]] = []  # with what it costs to write across
        self._as_array = numpy.empty((0, 5))  # ends and weights of the lines, made anew when some were added
        self.leaders: list[Segment] = []
        self.taken: list[Box] = []
        room = axes.get_window_extent()
        self.x, self.y = (room.x0, room.x1), (room.y0, room.y1)

    def segment(self, x: Sequence[float], y: Sequence[float]) -> Segment:
        """The visible part of a straight line in data coordinates; of length 0 where none is."""
        (x0, y0), (x1, y1) = self.axes.transData.transform([(x[0], y[0]), (x[1], y[1])])
        line = Segment(float(x0), float(y0), float(x1), float(y1))
        return line.clipped(self.x, self.y) or Segment(line.x0, line.y0, line.x0, line.y0)

    def avoid(self, path: Iterable[tuple[float, float]], weight: float) -> None:
        """Words shall rather not stand on a line through these points; ``weight``: in line heights of distance."""
        self.lines += [(self.segment(*zip(*ends, strict=True)), weight) for ends in itertools.pairwise(path)]

    def pieces(self, path: Sequence[tuple[float, float]], degrees: float = 1.5) -> list[Segment]:
        """The visible straight parts of a path, neighbours of about the same slope joined."""
        pieces: list[Segment] = []
        for ends in itertools.pairwise(path):
            piece = self.segment(*zip(*ends, strict=True))
            if piece.length == 0:
                continue
            if pieces and abs(pieces[-1].angle - piece.angle) < degrees:
                pieces[-1] = pieces[-1]._replace(x1=piece.x1, y1=piece.y1)
            else:
                pieces.append(piece)
        return pieces

    def write_on_longest(self, pieces: Sequence[Segment], texts: Sequence[str], start: float, label: str) -> bool:
        """Writes along one of the four longest pieces; False where no place is free."""
        longest = sorted(pieces, key=lambda piece: -piece.length)[:4]
        return any(self.write_along(piece, texts, start, label) for piece in longest)

    def write_along(
        self, segment: Segment, texts: Sequence[str], start: float, label: str, color: str = FADED, **look: Any
    ) -> bool:
        """Writes on the line itself, at its angle, where the least is covered; ``start`` (0 to 1) is where it would
        best stand. Shorter texts are tried where longer ones would cover too much. False where no place is free."""
        look = {"fontsize": 0.85 * self.font, "zorder": 3.4, "label": label, "color": color, **look}
        candidates: list[tuple[float, Text, Box]] = []
        for i, text in enumerate(texts):
            artist = self._text(text, **look)
            places = self._places_along(segment, *_half_size(artist), start)
            if not places:
                artist.remove()
                continue
            cost, box = min(places, key=lambda place: place[0])
            candidates.append((cost + LOST_WORDS * i, artist, box))
            if cost < TOLERABLE:
                break
        if not candidates:
            return False
        _, best, box = min(candidates, key=lambda candidate: candidate[0])
        for _, artist, _ in candidates:
            if artist is not best:
                artist.remove()
        self._put(best, box)
        return True

    def _places_along(
        self, segment: Segment, half_width: float, half_height: float, start: float
    ) -> list[tuple[float, Box]]:
        """Free boxes above and below a line, each with its cost."""
        gap = 1.2 * self.pixels_per_pt
        length, angle = segment.length, segment.angle
        span = length - 2 * half_width - 4 * gap
        places = []
        for share in [start, *(i / 24 for i in range(25))] if span >= 0 else []:
            x, y = segment.at((half_width + 2 * gap + share * span) / length)
            for side, penalty in ((1, 0.0), (-1, 0.5)):
                away = side * (half_height + gap)
                turn = math.radians(angle + 90)
                box = Box(x + away * math.cos(turn), y + away * math.sin(turn), half_width, half_height, angle)
                if self.free(box.grown(gap / 2)):
                    places.append((self._covered(box, segment) + penalty + 2 * abs(share - start), box))
        return places

    def write_beside(self, names: Iterable[tuple[float, float, Sequence[str]]], **look: Any) -> None:
        """Names points (data coordinates and texts, of which the first that fits is taken), the most important first.
        A name that finds no place around its point is left out: hover text has it."""
        look = {"fontsize": 0.9 * self.font, "label": "point-label", "zorder": 6, **look}
        for at_x, at_y, texts in names:
            artist = self._fitting(texts, **look)
            if artist is None:
                continue
            x, y = (float(pixels) for pixels in self.axes.transData.transform((at_x, at_y)))
            box = self._place_for(artist, x, y)
            if box is None:
                artist.remove()
                continue
            self._put(artist, box)
            self._draw_leader(box, x, y)

    def _fitting(self, texts: Sequence[str], **style: Any) -> Text | None:
        """The first of the texts that is not wider than the axes."""
        for text in texts:
            artist = self._text(text, **style)
            if 2 * _half_size(artist)[0] < 0.96 * (self.x[1] - self.x[0]):
                return artist
            artist.remove()
        return None

    def free(self, box: Box) -> bool:
        return box.within(self.x, self.y) and not any(box.overlaps(other) for other in self.taken)

    def take(self, artist: Text) -> None:
        """Keeps other words away from one that already stands somewhere."""
        box = artist.get_window_extent()
        centre = (float(box.x0 + box.x1) / 2, float(box.y0 + box.y1) / 2)
        self.taken.append(Box(*centre, float(box.width) / 2, float(box.height) / 2))

    def _text(self, text: str, **style: Any) -> Text:
        plate = {"facecolor": self.axes.get_facecolor(), "edgecolor": "none", "alpha": 0.75, "pad": 0.3}
        look = {"ha": "center", "va": "center", "rotation_mode": "anchor", **style}
        return self.axes.text(0, 0, text, transform=None, bbox=plate if self.plates else None, **look)

    def _covered(self, box: Box, own: Segment | None = None) -> float:
        """What words in a box would cover: marks and lines, leaders among them."""
        lines = self._weight_crossed(box) - sum(w for line, w in self.lines if line is own and box.crossed_by(line))
        return COVERS_MARK * box.grown(self.mark).holds(self.marks) + lines

    def _weight_crossed(self, box: Box) -> float:
        if len(self._as_array) != len(self.lines):
            self._as_array = numpy.array([(*line, weight) for line, weight in self.lines])
        return float(self._as_array[box.crossed_by_each(self._as_array[:, :4]), 4].sum())

    def _put(self, artist: Text, box: Box) -> None:
        # kept in axes coordinates, so that it stands there at every resolution
        x, y = self.axes.transAxes.inverted().transform((box.x, box.y))
        artist.set_transform(self.axes.transAxes)
        artist.set_position((x, y))
        artist.set_rotation(box.angle)
        self.taken.append(box)

    def _place_for(self, artist: Text, x: float, y: float) -> Box | None:
        """The box around the point that is free, near, and covers the least; None where all cover too much."""
        half_width, half_height = _half_size(artist)
        places: list[tuple[float, Box | None]] = []
        for place_x, place_y in self._around(x, y, half_width, half_height):
            box = Box(place_x, place_y, half_width, half_height)
            if not self.free(box.grown(self.pixels_per_pt)) or box.grown(self.mark).holds(_array([(x, y)])):
                continue
            leader = Segment(x, y, *box.nearest(x, y))
            cost = self._covered(box) + self._leader_cost(leader) + leader.length / (3 * half_height)
            if box.grown(leader.length + self.pixels_per_pt).holds(self.marks) > 1:
                cost += NEARER_TO_ANOTHER
            places.append((cost, box))
        cost, best = min(places, key=lambda place: place[0], default=(math.inf, None))
        return best if cost < COVERS_MARK else None

    def _around(self, x: float, y: float, half_width: float, half_height: float) -> Iterable[tuple[float, float]]:
        for ring in (0, 1, 2, 4, 6, 9, 13):
            away = self.mark + (2 + 2 * ring) * self.pixels_per_pt + ring * half_height
            for i in range(20):
                turn = 2 * math.pi * i / 20
                yield x + (half_width + away) * math.cos(turn), y + (half_height + away) * math.sin(turn)

    def _leader_cost(self, leader: Segment) -> float:
        """What a line from a point to its name would cross: words, other leaders, other marks."""
        if not self._needs_leader(leader):
            return 0.0
        words = sum(box.crossed_by(leader) for box in self.taken)
        leaders = sum(crossing(leader, other) for other in self.leaders)
        own = min(1.0, 1.5 * self.mark / leader.length)  # the alley starts past the point's own mark
        alley = Box(*leader.at((1 + own) / 2), (1 - own) / 2 * leader.length, 1.3 * self.mark, leader.angle)
        return CROSSES_LEADER * (words + leaders) + COVERS_MARK * alley.holds(self.marks)

    def _needs_leader(self, leader: Segment) -> bool:
        return leader.length > self.mark + 5 * self.pixels_per_pt

    def _draw_leader(self, box: Box, x: float, y: float) -> None:
        """A thin line to a point that its name does not touch."""
        leader = Segment(x, y, *box.nearest(x, y))
        if not self._needs_leader(leader):
            return
        self.leaders.append(leader)
        self.lines.append((leader, CROSSES_LEADER))
        ends = [leader.at((self.mark + self.pixels_per_pt) / leader.length), leader.at(1.0)]
        (x0, y0), (x1, y1) = self.axes.transAxes.inverted().transform(ends)
        look: dict[str, Any] = {"color": CEILING, "linewidth": 0.5, "zorder": 3.5, "label": "leader"}
        self.axes.plot([x0, x1], [y0, y1], transform=self.axes.transAxes, **look)


def _half_size(artist: Text) -> tuple[float, float]:
    """Half width and half height of a text that is not turned yet."""
    box = artist.get_window_extent()
    return float(box.width) / 2, float(box.height) / 2


def _array(points: Iterable[Any]) -> NDArray[numpy.float64]:
    return numpy.array(list(points), dtype=float).reshape(-1, 2)
