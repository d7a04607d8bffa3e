"""Words beside lines and points that never cover each other. Geometry in display pixels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from roofexp.figures.canvas.geometry import Box, Points, Segment, crossing
from roofexp.figures.canvas.style import CEILING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text
    from numpy.typing import NDArray

# What a place costs, in line heights of distance from where words would best stand. Lines weigh as they are drawn with.
COVERS_MARK, NEARER_TO_ANOTHER, CROSSES_LEADER = 8.0, 4.0, 3.0
LOST_WORDS = 1.5  # what each shortening costs
TOLERABLE = 4.0  # words that cost more are tried shorter
FEW = 4  # names that find their places without adjustText
ROUNDS = 40  # of adjustText


class LabelCanvas:
    """One axes' area: what is taken by words, by points and by lines, and what still is free."""

    def __init__(
        self, axes: Axes, marks: Sequence[tuple[float, float]], mark_pt: float, spread: bool = True, plates: bool = True
    ) -> None:
        """``spread``: whether adjustText moves names before places are looked for (it draws the whole figure once);
        ``plates``: whether words stand on a plate of the axes' colour."""
        self.axes, self.spread, self.plates = axes, spread, plates
        self.pixels_per_pt = axes.figure.dpi / 72
        self.mark = 0.7 * mark_pt * self.pixels_per_pt  # corners and rings reach past half the size
        self.marks = axes.transData.transform(_array(marks)) if marks else _array([])
        self.lines: list[tuple[Segment, float]] = []  # with what it costs to write across
        self._known: tuple[int, Any] = (0, None)  # the lines as numbers, made anew when some were added
        self.leaders: list[Segment] = []
        self.taken: list[Box] = []
        room = axes.get_window_extent()
        self.x, self.y = (room.x0, room.x1), (room.y0, room.y1)

    def segment(self, x: Sequence[float], y: Sequence[float]) -> Segment:
        """The visible part of a straight line in data coordinates; of length 0 where none is."""
        (x0, y0), (x1, y1) = self.axes.transData.transform([(x[0], y[0]), (x[1], y[1])])
        line = Segment(float(x0), float(y0), float(x1), float(y1))
        return line.clipped(self.x, self.y) or Segment(line.x0, line.y0, line.x0, line.y0)

    def write_along(self, segment: Segment, texts: Sequence[str], start: float, **style: Any) -> bool:
        """Writes on the line itself, at its angle, where the least is covered; ``start`` (0 to 1) is where it would
        best stand. Shorter texts are tried where longer ones would cover too much. False where no place is free."""
        found: list[tuple[float, Text, Box]] = []
        for i, text in enumerate(texts):
            artist = self._text(text, **style)
            places = self._places_along(segment, *_half_size(artist), start)
            if places:
                cost, box = min(places, key=lambda place: place[0])
                found.append((cost + LOST_WORDS * i, artist, box))
                if cost < TOLERABLE:
                    break
            else:
                artist.remove()
        if not found:
            return False
        best = min(found, key=lambda place: place[0])
        for _, artist, _ in found:
            if artist is not best[1]:
                artist.remove()
        self._put(best[1], best[2])
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

    def write_beside(self, wanted: Sequence[tuple[float, float, Sequence[str]]], **style: Any) -> int:
        """Names points (data coordinates and texts, of which the first that fits is taken), the most important first;
        returns how many names found a place.

        adjustText spreads them; a name that has no place of its own then is tried around its point, and left out if
        that fails too: hover text has it.
        """
        fitting = [(x, y, self._fitting(texts, **style)) for x, y, texts in wanted]
        named = [(x, y, artist) for x, y, artist in fitting if artist is not None]
        if not named:
            return 0
        points = self.axes.transData.transform(_array([(x, y) for x, y, _ in named]))
        centres = self._spread(named) if self.spread and len(named) > FEW else points.tolist()
        written = 0
        for (_, _, artist), centre, (x, y) in zip(named, centres, points, strict=True):
            box = self._place_for(artist, centre, float(x), float(y))
            if box is None:
                artist.remove()
                continue
            self._put(artist, box)
            self._draw_leader(box, float(x), float(y))
            written += 1
        return written

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
        """What words in a box would cover: marks weigh most, then leaders, then lines."""
        lines = self._weight_crossed(box) - sum(w for line, w in self.lines if line is own and box.crossed_by(line))
        leaders = sum(box.crossed_by(line) for line in self.leaders)
        marks = box.grown(self.mark).holds(self.marks)
        return COVERS_MARK * marks + CROSSES_LEADER * leaders + lines

    def _weight_crossed(self, box: Box) -> float:
        import numpy

        if not self.lines:
            return 0.0
        if self._known[0] != len(self.lines):
            self._known = len(self.lines), numpy.array([(*line, weight) for line, weight in self.lines])
        lines = self._known[1]
        return float(lines[box.crossed_by_each(lines[:, :4]), 4].sum())

    def _put(self, artist: Text, box: Box) -> None:
        # kept in axes coordinates, so that it stands there at every resolution
        x, y = self.axes.transAxes.inverted().transform((box.x, box.y))
        artist.set_transform(self.axes.transAxes)
        artist.set_position((x, y))
        artist.set_rotation(box.angle)
        self.taken.append(box)

    def _spread(self, named: Sequence[tuple[float, float, Text]]) -> list[tuple[float, float]]:
        """Where adjustText moves the middles of the texts, away from each other, marks, lines and words."""
        from adjustText import adjust_text

        for x, y, artist in named:
            artist.set_transform(self.axes.transData)
            artist.set_position((x, y))
        texts = [artist for _, _, artist in named]
        x, y = self.axes.transData.inverted().transform(self._obstacles()).T
        adjust_text(texts, x=x, y=y, ax=self.axes, expand=(1.08, 1.35), force_text=(0.3, 0.5), iter_lim=ROUNDS)
        middles = self.axes.transData.transform(_array([artist.get_position() for artist in texts]))
        return [(float(x), float(y)) for x, y in middles]

    def _obstacles(self) -> Points:
        """Places that words should keep away from; in a crowd one for each few pixels is enough."""
        import numpy

        places = [(float(x), float(y)) for x, y in self.marks]
        for box in self.taken:
            places += box.axis().samples(max(4.0, box.half_height))
        for line, _ in self.lines:
            places += line.samples(16 * self.pixels_per_pt)
        coarse = 4 * self.pixels_per_pt
        return numpy.unique(numpy.round(_array(places) / coarse), axis=0) * coarse

    def _place_for(self, artist: Text, centre: Sequence[float], x: float, y: float) -> Box | None:
        """The middle that adjustText found or one around the point: free, near, and covering little."""
        half_width, half_height = _half_size(artist)
        places: list[tuple[float, Box | None]] = []
        for place_x, place_y in [(centre[0], centre[1]), *self._around(x, y, half_width, half_height)]:
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
        ends = [leader.at((self.mark + self.pixels_per_pt) / leader.length), leader.at(1.0)]
        (x0, y0), (x1, y1) = self.axes.transAxes.inverted().transform(ends)
        look: dict[str, Any] = {"color": CEILING, "linewidth": 0.5, "zorder": 3.5, "label": "leader"}
        self.axes.plot([x0, x1], [y0, y1], transform=self.axes.transAxes, **look)


def _half_size(artist: Text) -> tuple[float, float]:
    """Half width and half height of a text that is not turned yet."""
    box = artist.get_window_extent()
    return float(box.width) / 2, float(box.height) / 2


def _array(points: Iterable[Any]) -> NDArray[numpy.float64]:
    import numpy

    return numpy.array(list(points), dtype=float).reshape(-1, 2)
