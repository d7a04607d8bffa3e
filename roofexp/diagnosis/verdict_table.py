"""Verdicts as tables: rows for the terminal, and faults.csv where verdicts are expected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roofexp.records.files import write_table
from roofexp.records.point import Point, evidence_text
from roofexp.text.console import plain_table


def verdict_table(points: list[Point]) -> Any:
    """For the terminal: what limits each point and what to do, points with the same verdict in one row. None without
    verdicts."""
    table = plain_table(["verdict", "points", "next move"], folding=["points", "next move"])
    groups: dict[str, list[Point]] = {}
    for point in points:
        if point.diagnosis:
            groups.setdefault(point.diagnosis.verdict.name, []).append(point)
    for name, group in groups.items():
        assert group[0].diagnosis
        table.add_row(name, _named(group), group[0].diagnosis.verdict.next_move)
    return table if groups else None


def _named(points: list[Point], most: int = 6) -> str:
    """``gemm 256, 512; softmax 8192``, or the first few and how many more."""
    sizes: dict[str, list[str]] = {}
    for point in points[:most]:
        sizes.setdefault(point.kernel, []).append(str(point.size))
    named = "; ".join(f"{kernel} {', '.join(dict.fromkeys(texts))}" for kernel, texts in sizes.items())
    return named + (f" and {len(points) - most} more" if len(points) > most else "")


def point_table(points: list[Point]) -> Any:
    """For the terminal: every point with its verdict, the reason and the next move."""
    table = plain_table(["point", "verdict", "why", "next move"], folding=["point", "why", "next move"])
    for point in points:
        diagnosis = point.diagnosis
        if diagnosis is None:
            table.add_row(point.label, point.reason_kind or "no verdict", point.reason or "", "")
        else:
            verdict = diagnosis.verdict
            table.add_row(point.label, verdict.name, verdict.message, verdict.next_move)
    return table


def details(point: Point) -> Iterator[str]:
    """A point's verdict line by line, with its numbers and every other cause."""
    diagnosis = point.diagnosis
    if diagnosis is None:
        yield f"{point.label}: no verdict{f' ({point.reason})' if point.reason else ''}"
        return
    expected = f", expected: {point.expect}" if point.expect else ""
    yield f"{point.label}: {diagnosis.verdict.name} (from {diagnosis.basis}{expected})"
    for cause in (diagnosis.verdict, *diagnosis.others):
        yield f"    {cause.score:.2f} {cause.name}: {cause.message}"
        if cause.evidence:
            yield f"         {evidence_text(cause.evidence)}"
    yield f"    next: {diagnosis.verdict.next_move}"


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
    write_table(folder / FILE, rows)
    return folder / FILE


def count_right(points: list[Point]) -> str:
    """``35 of 37 verdicts as expected, 1 point without a verdict``"""
    outcomes = [point.as_expected for point in expecting(points)]
    right, none = outcomes.count(True), outcomes.count(None)
    return f"{right} of {len(outcomes)} verdicts as expected" + (
        f", {none} point{'s' if none > 1 else ''} without a verdict" if none else ""
    )


def expectation_table(points: list[Point]) -> Any:
    """For the terminal: kernel, expected, found, evidence."""
    table = plain_table(["kernel", "expected", "found", "", "evidence"], folding=["evidence"])
    for point in expecting(points):
        row = expectation_row(point)
        mark = {True: "ok", False: "[bold red]wrong[/]", None: "[yellow]none[/]"}[point.as_expected]
        table.add_row(point.kernel, row["expected"], row["found"] or "", mark, row["evidence"] or row["message"])
    return table
