"""An SVG made fit to stand in the page beside others. The folder may be somebody else's: only what draws is kept, by
name, so that no script, link, form or style of the whole page comes with a figure."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_OF_PAGE = "{http://www.w3.org/XML/1998/namespace}space"
_RULE = re.compile(r"\*\s*\{([^{}]*)\}")
_PICTURE = re.compile(r"data:image/(?:png|jpeg);base64,[\w+/=\s]*")
_LOADS = re.compile(r"url\((?!#[\w.-]+\))|[@\\]|/\*|(?:expression|image|src)\s*\(", re.IGNORECASE)
_DECIMALS = re.compile(r"(\d+\.\d\d)\d+")
_GEOMETRY = ("d", "x", "y", "points", "transform", "width", "height")
_DRAWING = """
svg g defs path use text tspan title desc style clipPath mask pattern marker symbol image rect circle ellipse line
polyline polygon linearGradient radialGradient stop
"""
_STYLING = """
clip-path clip-rule color dominant-baseline fill fill-opacity fill-rule font font-family font-size font-stretch
font-style font-variant font-weight image-rendering letter-spacing marker-end marker-mid marker-start mask
mix-blend-mode opacity paint-order shape-rendering stop-color stop-opacity stroke stroke-dasharray stroke-dashoffset
stroke-linecap stroke-linejoin stroke-miterlimit stroke-opacity stroke-width text-anchor text-rendering transform
vector-effect white-space
"""
_PLACING = """
id style d x y x1 y1 x2 y2 dx dy width height points r cx cy rx ry fx fy offset viewBox preserveAspectRatio
gradientUnits gradientTransform spreadMethod clipPathUnits maskUnits patternUnits patternTransform markerWidth
markerHeight markerUnits refX refY orient textLength lengthAdjust
"""
_ELEMENTS = frozenset(f"{_SVG}{name}" for name in _DRAWING.split())
_PRESENTATION = frozenset(_STYLING.split())
_ATTRIBUTES = _PRESENTATION | frozenset(_PLACING.split())
_FONT = re.compile(r"font-family: 'DejaVu Sans'")


def inline_svg(svg: bytes, prefix: str, label: str, jobs: Mapping[str, int]) -> str:
    """The ``<svg>`` element as text, with every id after ``prefix``.

    ``label`` is its text alternative; ``jobs`` maps the ids of marks to their points' jobs, which they then carry as
    ``data-job``. Raises ElementTree.ParseError for what is not XML.
    """
    root = ElementTree.fromstring(svg)
    for title in root.findall(f"{_SVG}title"):
        root.remove(title)
    _keep_what_draws(root)
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
    match = re.search(rb'<svg[^>]*?\swidth="([\d.]+)pt"', svg)
    return float(match[1]) if match else None


def headline(svg: bytes) -> str:
    """The figure's own title; "" where it has none."""
    try:
        title = ElementTree.fromstring(svg).find(f"{_SVG}title")
    except ElementTree.ParseError:
        return ""
    return (title.text or "").strip() if title is not None else ""


def _keep_what_draws(root: ElementTree.Element) -> None:
    """Takes away elements and attributes that are not in the lists above, and references out of the figure."""
    for element in root.iter():
        for child in list(element):
            if child.tag not in _ELEMENTS:
                element.remove(child)
        for name, value in list(element.attrib.items()):
            if not _draws(element.tag, name, value):
                del element.attrib[name]
        if "style" in element.attrib:
            element.set("style", _declarations(element.attrib["style"]))
        if element.tag == f"{_SVG}style":
            element.text = "".join(f"*{{{_declarations(rule)}}}" for rule in _RULE.findall(element.text or ""))


def _draws(tag: str, name: str, value: str) -> bool:
    if name in (_XLINK, "href"):
        return value.startswith("#") or (tag == f"{_SVG}image" and bool(_PICTURE.fullmatch(value)))
    return name == _OF_PAGE or (name in _ATTRIBUTES and (name == "style" or not _LOADS.search(value)))


def _declarations(style: str) -> str:
    """Those of a style that say how something is drawn."""
    pairs = [text.partition(":") for text in style.split(";")]
    return "; ".join(
        f"{name.strip()}: {value.strip()}"
        for name, _, value in pairs
        if name.strip() in _PRESENTATION and not _LOADS.search(value)
    )


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
