"""An SVG made fit to stand in a page beside others: its ids its own, its styles confined, its coordinates short."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_DECIMALS = re.compile(r"(\d+\.\d\d)\d+")
_GEOMETRY = ("d", "x", "y", "points", "transform", "width", "height")
_FONT = re.compile(r"font-family: 'DejaVu Sans'")


def inline_svg(svg: bytes, prefix: str, label: str, jobs: Mapping[str, int]) -> str:
    """The ``<svg>`` element as text, with every id after ``prefix``.

    ``label`` is its text alternative; ``jobs`` maps the ids of marks to their points' jobs, which they then carry as
    ``data-job``. Raises ElementTree.ParseError for what is not XML.
    """
    root = ElementTree.fromstring(svg)
    for child in [c for c in root if c.tag in (f"{_SVG}metadata", f"{_SVG}title")]:
        root.remove(child)
    for element in root.iter():
        _own(element, prefix, jobs)
    root.attrib = {
        "id": f"{prefix}svg",
        "viewBox": root.get("viewBox", f"0 0 {_points(root.get('width'))} {_points(root.get('height'))}"),
        "role": "img",
        "aria-label": label,
    }
    return ElementTree.tostring(_without_namespace(root), encoding="unicode")


def natural_width(svg: bytes) -> float | None:
    """In points, as its author drew it."""
    found = re.search(rb'<svg[^>]*?\swidth="([\d.]+)pt"', svg)
    return float(found[1]) if found else None


def headline(svg: bytes) -> str:
    """The figure's own title; "" where it has none."""
    try:
        title = ElementTree.fromstring(svg).find(f"{_SVG}title")
    except ElementTree.ParseError:
        return ""
    return (title.text or "").strip() if title is not None else ""


def _own(element: ElementTree.Element, prefix: str, jobs: Mapping[str, int]) -> None:
    for name, value in list(element.attrib.items()):
        if name == "id":
            element.set("id", f"{prefix}{value}")
            if value in jobs:
                element.set("data-job", str(jobs[value]))
        elif name in (_XLINK, "href") and value.startswith("#"):
            del element.attrib[name]
            element.set("href", f"#{prefix}{value[1:]}")
        elif "url(#" in value:
            element.set(name, _REFERENCE.sub(rf"url(#{prefix}\1)", value))
        elif name in _GEOMETRY:
            element.set(name, _DECIMALS.sub(r"\1", value))
        elif name == "style":  # where that font is missing, the nearest in width
            element.set(name, _FONT.sub("font-family: 'DejaVu Sans', Verdana, sans-serif", value))
    if element.tag == f"{_SVG}style" and element.text:  # it would style the whole page
        element.text = re.sub(r"(^|\})\s*\*", rf"\1 #{prefix}svg *", element.text)


def _without_namespace(root: ElementTree.Element) -> ElementTree.Element:
    """HTML's parser knows SVG by its names and no prefixes."""
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for name in [name for name in element.attrib if name.startswith("{")]:
            value = element.attrib.pop(name)
            if name.startswith("{http://www.w3.org/XML/1998/namespace}"):
                element.set(f"xml:{name.rpartition('}')[2]}", value)
    return root


def _points(length: str | None) -> str:
    return (length or "0").removesuffix("pt").removesuffix("px")
