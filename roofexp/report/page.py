"""The page itself: what was gathered, through the template, into one file that needs no other to be read."""

from __future__ import annotations

from pathlib import Path

from roofexp.point import Point, write_atomically
from roofexp.report.cautions import cautions
from roofexp.report.contents import Contents, read_contents
from roofexp.report.figures import figures
from roofexp.report.links import Links
from roofexp.report.machines import clock_table, machine_facts
from roofexp.report.repetition import repetition
from roofexp.report.roof_table import roof_tables
from roofexp.report.rows import Series, series_of, verdict_rows
from roofexp.report.template import TEMPLATES, environment

REPORT = "report.html"
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
    text: str = environment().get_template("report.html.j2").render(
        contents=contents,
        links=links,
        style=(TEMPLATES / "report.css").read_text(),
        script=(TEMPLATES / "report.js").read_text(),
        cautions=cautions(contents),
        rows=rows,
        series=series if len(rows) >= SERIES_FROM and len(rows) >= PER_SERIES * len(series) else [],
        counts=counts(contents.points),
        bounds=Series(kernel="", precision="", rows=rows).outcomes,
        figures=figures(contents, links),
        machines=[(machine, machine_facts(machine)) for machine in contents.machines.values()],
        clocks=clock_table(contents),
        roofs=roof_tables(contents),
        repetition=repetition(contents),
    )  # fmt: skip
    return text


def counts(points: list[Point]) -> list[tuple[str, int]]:
    """How points ended: only what happened."""
    found = [(status, sum(point.status == status for point in points)) for status in ("ok", "failed", "skipped")]
    return [(status, number) for status, number in found if number]
