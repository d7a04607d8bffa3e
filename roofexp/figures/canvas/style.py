"""Fonts, colours, markers and the wrapping of text; imports Matplotlib without a display, so import it first.

Figures are made from Matplotlib's objects and the Agg canvas, never through pyplot, so a backend that the user chose
for other windows of the same process stays as it is.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from roofexp.config.schema import FiguresConfig, FigureStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_asked = os.environ.get("MPLBACKEND")
os.environ["MPLBACKEND"] = "agg"  # a misspelt or foreign backend would already end the import

_found = importlib.util.find_spec("matplotlib")

try:
    # a matplotlibrc in the working folder is read at the import, and one that is no text ends it
    with contextlib.chdir(Path(_found.origin).parent / "mpl-data" if _found and _found.origin else Path()):
        import matplotlib
finally:
    if _asked is None:
        del os.environ["MPLBACKEND"]
    else:
        os.environ["MPLBACKEND"] = _asked

MM_PER_INCH = 25.4
NARROW_MM = 120  # narrower figures are one column of a page
DOTS_PER_INCH = {FigureStyle.screen: 150, FigureStyle.paper: 300}
UNIT = r"(?:%|[pnµmkMGTPE]?(?:Hz|B|s|B/s|FLOP/s|FLOP/B)(?![\w/]))"  # stays on the line of its number
FONT = "DejaVu Sans"  # comes with Matplotlib, and is wider than its substitutes: words placed by it fit in all
INK, FADED, FAINT = "#222222", "#5f5f5f", "#e4e4e4"
ROOF, CEILING = "#3c3c3c", "#8a8a8a"

# Markers of similar area that stay apart when hollow and in grey print.
MARKERS = {"fp64": "D", "fp32": "o", "tf32": "h", "fp16": "s", "bf16": "^", "fp8": "v", "int8": "P"}
PRECISIONS = list(MARKERS)


def themed(settings: FiguresConfig) -> AbstractContextManager[None]:
    """The look while drawing and while saving, from Matplotlib's own defaults, whatever the user's matplotlibrc says;
    afterwards Matplotlib is as it was."""
    defaults = {name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith("backend")}
    return matplotlib.rc_context({**defaults, **rc(settings)})


def salted(name: str) -> AbstractContextManager[None]:
    """Ids of shared shapes in an SVG that differ from those of other figures in one page."""

    return matplotlib.rc_context({"svg.hashsalt": f"roofexp {name}"})


def rc(settings: FiguresConfig) -> dict[Any, Any]:
    """Matplotlib's settings: text stays text in SVG and PDF, and files are reproducible."""
    font = settings.font_pt
    small = ("xtick.labelsize", "ytick.labelsize", "legend.fontsize")
    thin = ("axes.linewidth", "xtick.major.width", "ytick.major.width")
    dark = ("axes.labelcolor", "text.color", "xtick.labelcolor", "ytick.labelcolor")
    return {
        **_seaborn().axes_style("ticks"),
        "font.family": FONT,
        **dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), font),
        **dict.fromkeys(small, 0.9 * font),
        **dict.fromkeys(thin, 0.08 * font),
        **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 0.4 * font),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), FADED),
        **dict.fromkeys(dark, INK),
        **dict.fromkeys(("xtick.direction", "ytick.direction"), "out"),
        "grid.color": FAINT,
        "grid.linewidth": 0.06 * font,
        "svg.fonttype": "none",
        "svg.hashsalt": "roofexp",
        "pdf.fonttype": 42,
        "text.parse_math": False,  # a dollar in a name is a dollar
    }


def dots_per_inch(settings: FiguresConfig) -> int:
    return DOTS_PER_INCH[settings.style]


def open_sides(axes: Axes, side: Literal["left", "right"] = "left") -> None:
    """A frame on one side and below only."""
    _seaborn().despine(ax=axes, top=True, left=side != "left", right=side != "right")


def is_wide(settings: FiguresConfig) -> bool:
    """Whether the figure spans more than one column of a page."""
    return settings.width_mm >= NARROW_MM


def width_in(settings: FiguresConfig) -> float:
    return settings.width_mm / MM_PER_INCH


def kernel_colours(kernels: Iterable[str]) -> dict[str, str]:
    """A colour for each kernel, in order of appearance: seaborn's colour-blind-safe ten, then their dark and their
    pale variants, then grey."""
    names = list(dict.fromkeys(kernels))
    safe = _seaborn().color_palette("colorblind", 10).as_hex()
    # neighbours in this order differ in lightness too, so that grey print keeps them apart
    base = [safe[i] for i in (0, 1, 2, 4, 3, 9, 5, 8, 6)]
    dark = [_mixed(colour, "#000000", 0.5) for colour in base]
    pale = [_mixed(colour, "#ffffff", 0.45) for colour in base]
    colours = base + dark + pale
    return {name: colours[i] if i < len(colours) else "#777777" for i, name in enumerate(names)}


def in_precision_order(precisions: Iterable[str]) -> list[str]:
    places = {name: i for i, name in enumerate(PRECISIONS)}
    return sorted(dict.fromkeys(precisions), key=lambda name: places.get(name, len(places)))


def marker(precision: str) -> str:
    return MARKERS.get(precision, "X")


def shortened(name: str, letters: int) -> str:
    """A name that fits: the middle gives way, because the ends tell kernels apart."""
    if len(name) <= letters:
        return name
    head = (letters - 1) * 2 // 3
    return f"{name[:head]}…{name[len(name) - (letters - 1 - head) :]}"


@functools.cache
def text_width(text: str, font_pt: float, bold: bool = False) -> float:
    """Width in points of one line in the figures' font."""
    from matplotlib.font_manager import FontProperties

    font = FontProperties(family=FONT, size=font_pt, weight="bold" if bold else "normal")
    return float(_measuring().get_text_width_height_descent(text, font, False)[0])


def wrapped(text: str, width_pt: float, font_pt: float, bold: bool = False) -> str:
    """Text in lines that fit ``width_pt``."""
    space = text_width(" ", font_pt, bold)
    lines: list[str] = []
    reached = 0.0
    for word in re.split(f" (?!{UNIT})", text):
        width = text_width(word, font_pt, bold)  # word by word, because whole lines take long to measure
        if lines and reached + space + width <= width_pt:
            lines[-1] += f" {word}"
            reached += space + width
        else:
            lines.append(word)
            reached = width
    return "\n".join(lines)


def joined(words: Sequence[str], most: int = 6) -> str:
    """``a, b and c``; past ``most`` of them ``a, b, c and 7 more``."""
    shown, left = list(words[:most]), len(words) - most
    if left > 0:
        return f"{', '.join(shown)} and {left} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _seaborn() -> Any:
    """Imported after Matplotlib, which must come without a display."""

    # isort: split
    import seaborn

    return seaborn


@functools.cache
def _measuring() -> Any:
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(1, 1, 72)  # type: ignore[no-untyped-call]


def _mixed(colour: str, other: str, share: float) -> str:
    parts = [round((1 - share) * int(colour[i : i + 2], 16) + share * int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{part:02x}" for part in parts)
