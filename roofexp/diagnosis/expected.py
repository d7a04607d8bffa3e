"""Found against expected, for kernels whose file says which verdict they must get: faults that were planted."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from roofexp.diagnosis.diagnose import evidence_text
from roofexp.point import Point, write_atomically

FILE = "faults.csv"
RIGHT = {True: "yes", False: "no", None: ""}


def expecting(points: list[Point]) -> list[Point]:
    """The points of which a verdict is expected, failed ones too."""
    return [point for point in points if point.expect is not None]


def expectation_row(point: Point) -> dict[str, Any]:
    """A point as a row of faults.csv; without a verdict, why there is none."""
    diagnosis = point.diagnosis
    return {
        "job": point.job,
        "kernel": point.kernel,
        "size": point.size,
        "precision": point.precision,
        "expected": point.expect,
        "found": diagnosis.verdict.name if diagnosis else None,
        "right": RIGHT[point.as_expected],
        "basis": diagnosis.basis if diagnosis else None,
        "score": diagnosis.verdict.score if diagnosis else None,
        "message": diagnosis.verdict.message if diagnosis else (point.reason or "no verdict"),
        "evidence": evidence_text(diagnosis.verdict.evidence) if diagnosis else None,
        "other_causes": "; ".join(f"{cause.name} {cause.score:.2f}" for cause in diagnosis.others)
        if diagnosis
        else None,
        "time_s": point.timing.median_s if point.timing else None,
    }


def write_expectations(folder: Path, points: list[Point]) -> Path | None:
    """faults.csv beside points.csv; None in a sweep in which no verdict is expected."""
    rows = [expectation_row(point) for point in expecting(points)]
    if not rows:
        return None
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(folder / FILE, text.getvalue().encode())
    return folder / FILE


def count_right(points: list[Point]) -> str:
    """``35 of 37 verdicts as expected, 1 point without a verdict``"""
    wanted = expecting(points)
    right, none = (sum(point.as_expected is kind for point in wanted) for kind in (True, None))
    said = f"{right} of {len(wanted)} verdicts as expected"
    return said + (f", {none} point{'s' if none > 1 else ''} without a verdict" if none else "")


def expectation_table(points: list[Point]) -> Any:
    """For the terminal: kernel, expected, found, evidence."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("kernel", "expected", "found", "", "evidence"):
        table.add_column(name, overflow="fold" if name == "evidence" else "ellipsis", no_wrap=name != "evidence")
    for point in expecting(points):
        row = expectation_row(point)
        mark = {True: "ok", False: "[bold red]wrong[/]", None: "[yellow]none[/]"}[point.as_expected]
        table.add_row(point.kernel, row["expected"], row["found"] or "", mark, row["evidence"] or row["message"])
    return table
