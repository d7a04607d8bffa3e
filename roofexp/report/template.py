"""The template library set up, and how numbers and names stand in the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from roofexp.diagnosis.diagnose import evidence_text
from roofexp.report.roof_table import check_text
from roofexp.report.rows import anchor
from roofexp.report.strip import strip
from roofexp.units import engineering, percent, plain

TEMPLATES = Path(__file__).parent / "templates"
FEW = 6  # points named beside a warning; the rest unfolds


def environment() -> Any:
    """Every text is escaped unless a template says otherwise; an unknown name is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "engineering": engineering,
        "percent": percent,
        "plain": plain,
        "size": size_text,
        "intensity": intensity_text,
        "breakable": breakable,
        "anchor": anchor,
        "strip": strip,
        "check": check_text,
        "evidence": evidence_text,
    }
    made.globals |= {"few": FEW}
    return made


def size_text(size: int) -> str:
    """All digits, or a power of two where that is exact and shorter."""
    power = size.bit_length() - 1
    return f"2^{power}" if size >= 1_000_000 and size == 1 << power else str(size)


def intensity_text(flop_per_byte: float) -> str:
    """Without an exponent, and with a prefix where digits would only fill the column."""
    return plain(flop_per_byte) if flop_per_byte < 1e5 else engineering(flop_per_byte)


def breakable(text: str) -> Any:
    """A long name may go on in the next line after an underscore, a slash or a sign of equality."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([_=/])(?=\w)", r"\1<wbr>", str(escape(text))))
