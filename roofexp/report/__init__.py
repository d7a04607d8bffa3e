"""One self-contained page for a sweep, made from its files. Importing this is cheap."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path
from typing import Any

from roofexp.records.files import write_atomically
from roofexp.records.point import Point, evidence_text
from roofexp.report.cautions import cautions
from roofexp.report.contents import Contents, Links, read_contents
from roofexp.report.figures import figures
from roofexp.report.machines import check_text, clock_table, machine_details, repetition, roof_table
from roofexp.report.point_details import repeat_command
from roofexp.report.verdict_rows import KernelSummary, anchor, series_of, strip, verdict_rows
from roofexp.text.numbers import engineering, percent, plain

TEMPLATES = Path(__file__).parent / "templates"
FEW = 6  # points named beside a warning; the rest unfolds


@functools.cache
def environment() -> Any:
    """Every text is escaped unless a template says otherwise; an unknown name is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
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
        "repeat": repeat_command,
    }
    templates.globals |= {"few": FEW}
    return templates


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


REPORT = "report.html"
MARKS_SCRIPTS = 'document.documentElement.classList.add("js")'  # before the page is drawn
SERIES_FROM, PER_SERIES = 12, 3  # points in all and of a kernel from which the table is summed up by kernel first


def write_report(folder: Path) -> Path:
    """Writes ``report.html`` of the sweep in ``folder`` and returns where. Raises as its parts do."""
    return write_page(read_contents(folder), None)


def write_page(contents: Contents, output: Path | None) -> Path:
    """``output``: the file, or None for ``report.html`` in the sweep's folder. Raises OSError where it cannot be."""
    file = output or contents.folder / REPORT
    write_atomically(file, page(contents, file).encode())
    return file


def page(contents: Contents, file: Path) -> str:
    """The same text for the same files: nothing in it is of the moment of making it. ``file`` is where it will lie."""
    links = Links(contents, file)
    rows = verdict_rows(contents, links)
    series = series_of(rows)
    script = (TEMPLATES / "report.js").read_text()
    text: str = environment().get_template("report.html.j2").render(
        contents=contents,
        links=links,
        style=(TEMPLATES / "report.css").read_text(),
        script=script,
        script_hashes=[script_hash(text) for text in (MARKS_SCRIPTS, script)],
        marks_scripts=MARKS_SCRIPTS,
        cautions=cautions(contents),
        rows=rows,
        series=series if len(rows) >= SERIES_FROM and len(rows) >= PER_SERIES * len(series) else [],
        counts=counts(contents.points),
        bounds=KernelSummary(kernel="", precision="", rows=rows).outcomes,
        figures=figures(contents, links),
        machines=[(machine, list(machine_details(machine))) for machine in contents.machines.values()],
        clocks=clock_table(contents),
        roofs=[roof_table(roofs) for roofs in contents.roofs],
        repetition=repetition(contents),
    )  # fmt: skip
    return text


def script_hash(text: str) -> str:
    """As a Content-Security-Policy names a script that may run: only those of the program do."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def counts(points: list[Point]) -> list[tuple[str, int]]:
    """How points ended: only what happened."""
    statuses = [point.status for point in points]
    return [(status, statuses.count(status)) for status in ("ok", "failed", "skipped") if status in statuses]
