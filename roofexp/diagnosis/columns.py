"""The verdict in tables: as columns of points.csv, and as rows for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofexp.diagnosis.diagnose import evidence_text
from roofexp.point import Point


def verdict_columns(point: Point) -> dict[str, Any]:
    """The verdict, its numbers with their thresholds, and what to do; without one, what the placement says to do."""
    diagnosis, place = point.diagnosis, point.placement
    verdict = diagnosis.verdict if diagnosis else None
    return {
        "verdict": verdict.name if verdict else None,
        "verdict_message": verdict.message if verdict else None,
        "verdict_evidence": evidence_text(verdict.evidence) if verdict else None,
        "other_causes": "; ".join(cause.name for cause in diagnosis.others) if diagnosis and diagnosis.others else None,
        "next_move": verdict.next_move if verdict else place.next_move if place else None,
    }


def verdict_table(points: list[Point]) -> Any:
    """For the terminal: what each point suffers from and what to do, points with the same verdict together."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("points", overflow="fold", ratio=2)
    table.add_column("next move", overflow="fold", ratio=3)
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
    named = "; ".join(f"{kernel} {', '.join(dict.fromkeys(found))}" for kernel, found in sizes.items())
    return named + (f" and {len(points) - most} more" if len(points) > most else "")


def point_table(points: list[Point]) -> Any:
    """For the terminal: every point with its verdict, the reason and the next move."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, ratio in (("point", None), ("verdict", None), ("why", 3), ("next move", 3)):
        table.add_column(name, overflow="fold", no_wrap=name == "verdict", ratio=ratio)
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
