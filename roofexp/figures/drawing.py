"""A figure that carries the table of what it shows and the hover text of its marks, and writes itself to files."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofexp.figures import headless  # noqa: F401

# isort: split
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from roofexp.figures import style
from roofexp.point import write_atomically
from roofexp.schema import FiguresConfig, FigureStyle

if TYPE_CHECKING:
    import pandas

_SVG = "http://www.w3.org/2000/svg"
_NAMESPACES = {
    "": _SVG,
    "xlink": "http://www.w3.org/1999/xlink",
    "cc": "http://creativecommons.org/ns#",
    "dc": "http://purl.org/dc/elements/1.1/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
}


class Drawing(Figure):
    """``table`` has one row per drawn vertex, unit in every column name; ``hover`` maps an artist's gid to its text."""

    def __init__(self, settings: FiguresConfig, height_in: float, **kwargs: Any) -> None:
        super().__init__(figsize=(style.width_in(settings), height_in), dpi=style.dots_per_inch(settings), **kwargs)
        FigureCanvasAgg(self)
        self.settings = settings
        self.table: pandas.DataFrame | None = None
        self.hover: dict[str, str] = {}
        self.headline = ""

    def save(self, stem: Path) -> list[Path]:
        """Writes ``stem`` as .png and .svg (paper: .pdf too) and the table as .csv; each file whole or not at all."""
        stem.parent.mkdir(parents=True, exist_ok=True)
        written = [stem.with_name(f"{stem.name}.csv")]
        write_atomically(written[0], self._csv())
        kinds = ["png", "svg", *(["pdf"] if self.settings.style is FigureStyle.paper else [])]
        with style.themed(self.settings), style.salted(stem.name):
            for kind in kinds:
                data = self._rendered(kind)
                written.append(stem.with_name(f"{stem.name}.{kind}"))
                write_atomically(written[-1], with_hover(data, self.hover) if kind == "svg" else data)
        return written

    def _csv(self) -> bytes:
        return b"" if self.table is None else self.table.to_csv(index=False).encode()

    def _rendered(self, kind: str) -> bytes:
        buffer = BytesIO()
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[kind]
        self.savefig(buffer, format=kind, metadata={"Title": self.headline, **undated})
        return buffer.getvalue()


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
