"""The page around the axes: title, machine line, key of colours and marks, footnote. Lengths in points (1/72 inch)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofexp.figures import style
from roofexp.schema import FiguresConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from roofexp.figures.drawing import Drawing

LINE = 1.32  # line height over font size
TITLE = 1.2  # title over font size
SMALL = 0.85  # footnote over font size
KEY_LINE = 1.4  # line height of the key, in font sizes
EDGE = 0.6  # white around the page, in font sizes


class Page:
    """Lays out one figure: the header and the footer take what their text needs, the axes get a given height."""

    def __init__(self, settings: FiguresConfig, title: str, under: str, notes: Sequence[str]) -> None:
        self.settings = settings
        self.font = settings.font_pt
        self.width = style.width_in(settings) * 72
        self.edge = EDGE * self.font
        room = self.width - 2 * self.edge
        self.headline = title
        self.title = style.wrapped(title, room, TITLE * self.font, bold=True)
        self.under = style.wrapped(under, room, self.font)
        self.note = style.wrapped(" ".join(note for note in notes if note), room, SMALL * self.font)
        self.key: list[list[tuple[float, Line2D]]] = []  # rows of marks, each with its place from the left

    def add_key(self, handles: Sequence[Line2D]) -> None:
        """What colours and marks mean, line after line as it fits."""
        size, x = 0.9 * self.font, self.edge
        for handle in handles:
            width = style.text_width(str(handle.get_label()), size) + 2.9 * size
            if not self.key or x + width > self.width - self.edge:
                self.key.append([])
                x = self.edge
            self.key[-1].append((x, handle))
            x += width

    @property
    def top(self) -> float:
        return self.edge + _height(self.title, TITLE * self.font) + _height(self.under, self.font) + 0.9 * self.font

    @property
    def bottom(self) -> float:
        return self.edge + _height(self.note, SMALL * self.font) + self._key_height()

    def _key_height(self) -> float:
        return (len(self.key) * KEY_LINE + 0.6) * self.font if self.key else 0.0

    def make(self, axes_height: float, below: float) -> Drawing:
        """The empty page with header, key and footnote; ``below`` is what ticks and axis labels need."""
        from roofexp.figures.drawing import Drawing

        self.height = self.top + axes_height + below + self.bottom
        self.axes_bottom = self.bottom + below
        drawing = Drawing(self.settings, self.height / 72)
        drawing.headline = self.headline
        left = self.edge / self.width
        y = self.height - self.edge
        drawing.text(
            left, y / self.height, self.title, va="top", fontsize=TITLE * self.font, weight="bold", label="title"
        )
        y -= _height(self.title, TITLE * self.font) + 0.2 * self.font
        drawing.text(left, y / self.height, self.under, va="top", color=style.FADED, label="machine")
        if self.note:
            size = SMALL * self.font
            note: dict[str, Any] = {"va": "bottom", "fontsize": size, "color": style.FADED, "label": "footnote"}
            drawing.text(left, self.edge / self.height, self.note, **note)
        if self.key:
            self._draw_key(drawing)
        return drawing

    def _draw_key(self, drawing: Drawing) -> None:
        top = self.edge + _height(self.note, SMALL * self.font) + (len(self.key) * KEY_LINE + 0.3) * self.font
        for i, row in enumerate(self.key):
            y = (top - (i + 0.5) * KEY_LINE * self.font) / self.height
            for x, handle in row:
                handle.set_data([(x + 0.7 * self.font) / self.width], [y])
                drawing.add_artist(handle)
                place = ((x + 1.55 * self.font) / self.width, y)
                drawing.text(
                    *place, str(handle.get_label()), va="center_baseline", fontsize=0.9 * self.font, label="key"
                )

    def axes(self, drawing: Drawing, left: float, bottom: float, width: float, height: float, **kwargs: Any) -> Axes:
        """Axes at a place given from the lower left corner of the axes' area."""
        y = self.axes_bottom + bottom
        rectangle = (left / self.width, y / self.height, width / self.width, height / self.height)
        return drawing.add_axes(rectangle, **kwargs)


def _height(text: str, font: float) -> float:
    return (text.count("\n") + 1) * LINE * font if text else 0.0
