"""A figure as files (.png, .svg with hover text, .csv of every vertex drawn) and the page that it is laid out on."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from roofexp.config.schema import FiguresConfig, FigureStyle
from roofexp.figures.canvas import style
from roofexp.records.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from pandas import DataFrame

    from roofexp.figures.canvas.frame import Row

POINT_COLUMNS = [
    "job", "kernel", "implementation", "size", "precision", "params", "clock_mode", "cache_state", "traffic_level",
    "traffic_source", "fraction", "roof", "bound", "flags",
]  # fmt: skip

_SVG = "http://www.w3.org/2000/svg"

_NAMESPACES = {
    "": _SVG,
    "xlink": "http://www.w3.org/1999/xlink",
    "cc": "http://creativecommons.org/ns#",
    "dc": "http://purl.org/dc/elements/1.1/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
}


class Drawing(Figure):
    """``rows`` has one mapping per drawn vertex, unit in every key; ``hover`` maps an artist's gid to its text."""

    def __init__(self, settings: FiguresConfig, height_in: float, headline: str) -> None:
        super().__init__(figsize=(style.width_in(settings), height_in), dpi=style.dots_per_inch(settings))
        FigureCanvasAgg(self)
        self.settings, self.headline = settings, headline
        self.rows: list[dict[str, Any]] = []
        self.hover: dict[str, str] = {}

    @property
    def table(self) -> DataFrame:
        """What the .csv beside the figure holds."""
        return pandas.DataFrame(self.rows)

    def add_line(self, kind: str, name: str, vertices: list[dict[str, float]], **facts: Any) -> None:
        """Keeps a line of several vertices; each of them names its axes by column, e.g. ``flops_per_s``."""
        self.rows += [{"kind": kind, "name": name, **vertex, **facts} for vertex in vertices]

    def add_point(self, row: Row, vertex: dict[str, float], **facts: Any) -> None:
        columns = {name: row[name] for name in POINT_COLUMNS if name in row}
        self.rows.append({"kind": "point", "name": row["gid"], **vertex, **columns, **facts})

    def save(self, stem: Path) -> list[Path]:
        """Writes ``stem`` as .png and .svg (paper: .pdf too) and the table as .csv; each file whole or not at all."""
        stem.parent.mkdir(parents=True, exist_ok=True)
        written = [stem.with_name(f"{stem.name}.csv")]
        write_atomically(written[0], self.table.to_csv(index=False).encode())
        kinds = ["png", "svg", *(["pdf"] if self.settings.style is FigureStyle.paper else [])]
        with style.themed(self.settings), style.salted(stem.name):
            for kind in kinds:
                data = self._rendered(kind)
                written.append(stem.with_name(f"{stem.name}.{kind}"))
                write_atomically(written[-1], with_hover(data, self.hover) if kind == "svg" else data)
        return written

    def _rendered(self, kind: str) -> bytes:
        buffer = BytesIO()
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[kind]
        self.savefig(buffer, format=kind, metadata={"Title": self.headline, **undated})
        return buffer.getvalue()


def drawing_of(axes: Axes) -> Drawing:
    """The figure that axes stand in."""
    drawing = axes.figure
    assert isinstance(drawing, Drawing)
    return drawing


def with_hover(svg: bytes, hover: dict[str, str]) -> bytes:
    """The SVG with a ``<title>`` in each element whose id is a key of ``hover``; browsers show it under the mouse.

    Ids that nothing refers to are left out: several figures in one page would share them.
    """
    for prefix, name in _NAMESPACES.items():
        ElementTree.register_namespace(prefix, name)
    root = ElementTree.fromstring(svg)
    referred = _referred(root)
    for element in root.iter():
        name = element.get("id", "")
        if name and name not in hover and name not in referred:
            del element.attrib["id"]
        text = hover.get(name)
        if text is not None:
            title = ElementTree.Element(f"{{{_SVG}}}title")
            title.text = text
            element.insert(0, title)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _referred(root: ElementTree.Element) -> set[str]:
    """The ids that some attribute points at: ``#name`` or ``url(#name)``."""
    values = (value for element in root.iter() for value in element.attrib.values() if "#" in value)
    return {name for value in values for name in re.findall(r"#([\w.-]+)", value)}


LINE = 1.32  # line height over font size
TITLE = 1.2  # title over font size
SMALL = 0.85  # footnote over font size
KEY_LINE = 1.4  # line height of the key, in font sizes
EDGE = 0.6  # white around the page, in font sizes
SIDE = 5.0  # room for tick labels and the axis label beside axes, in font sizes
BELOW = 3.3  # the same below them
RIGHT = 0.9  # room at the right of axes without labels there


class Page:
    """Lays out one figure: the header and the footer take what their text needs, the axes get a given height."""

    def __init__(
        self, settings: FiguresConfig, title: str, under: str, notes: Sequence[str], key: Sequence[Line2D] = ()
    ) -> None:
        """``key``: a mark for each colour and shape, with its meaning as label."""
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
        self._lay_out_key(key)

    def _lay_out_key(self, handles: Sequence[Line2D]) -> None:
        """Line after line as it fits."""
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
        self.height = self.top + axes_height + below + self.bottom
        self.axes_bottom = self.bottom + below
        self.drawing = Drawing(self.settings, self.height / 72, self.headline)
        y = self.height - self.edge
        self._write(self.title, y, va="top", fontsize=TITLE * self.font, weight="bold", label="title")
        y -= _height(self.title, TITLE * self.font) + 0.2 * self.font
        self._write(self.under, y, va="top", color=style.FADED, label="machine")
        if self.note:
            small = SMALL * self.font
            self._write(self.note, self.edge, va="bottom", fontsize=small, color=style.FADED, label="footnote")
        self._draw_key()
        return self.drawing

    def _write(self, text: str, y: float, **look: Any) -> None:
        self.drawing.text(self.edge / self.width, y / self.height, text, **look)

    def _draw_key(self) -> None:
        top = self.edge + _height(self.note, SMALL * self.font) + (len(self.key) * KEY_LINE + 0.3) * self.font
        for i, row in enumerate(self.key):
            y = (top - (i + 0.5) * KEY_LINE * self.font) / self.height
            for x, handle in row:
                handle.set_data([(x + 0.7 * self.font) / self.width], [y])
                self.drawing.add_artist(handle)
                look: dict[str, Any] = {"va": "center_baseline", "fontsize": 0.9 * self.font, "label": "key"}
                self.drawing.text((x + 1.55 * self.font) / self.width, y, str(handle.get_label()), **look)

    def room(self, side: float = RIGHT, beside: float = 0.0) -> float:
        """The width that is left for axes, with SIDE on the left and ``side`` (in font sizes) on the right, and
        ``beside`` (points) of it taken."""
        return self.width - 2 * self.edge - beside - (SIDE + side) * self.font

    @property
    def left(self) -> float:
        """Where axes begin: past the edge and the labels of ticks."""
        return self.edge + SIDE * self.font

    def axes(self, left: float, bottom: float, width: float, height: float, **kwargs: Any) -> Axes:
        """Axes at a place given from the lower left corner of the axes' area."""
        y = self.axes_bottom + bottom
        rectangle = (left / self.width, y / self.height, width / self.width, height / self.height)
        return self.drawing.add_axes(rectangle, **kwargs)


def _height(text: str, font: float) -> float:
    return (text.count("\n") + 1) * LINE * font if text else 0.0
