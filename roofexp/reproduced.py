"""The comparison of a sweep with its reproduction, as a person reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofexp.agreement import Agreement, Row, Side
from roofexp.summary import WIDTH_WITHOUT_TERMINAL
from roofexp.units import engineering, percent

ROWS = 80  # a longer sweep shows the points that do not agree, and some of the others
SAID = {"agrees": "agree", "differs": "differ", "explained": "explained by flags"}
Pair = tuple[Side, Side]


def print_agreement(found: Agreement, sides: Pair, sweeps: tuple[Mapping[str, Any], Mapping[str, Any]]) -> None:
    from rich.console import Console

    terminal = Console()
    console = terminal if terminal.is_terminal else Console(width=WIDTH_WITHOUT_TERMINAL)
    print()
    for when, side, sweep in zip(("then", "now"), sides, sweeps, strict=True):
        print(f"{when:<8} {origin(side, sweep)}")
    console.print(_table(found.rows))
    for row in found.rows:
        if row.note:
            print(f"  {row.label}: {row.note}")
    print(verdict_line(found))


def origin(side: Side, sweep: Mapping[str, Any]) -> str:
    """NVIDIA H200, 2026-11-30, commit 607e62c."""
    ids = dict.fromkeys(point.machine_id for point in side.points.values() if point.machine_id)
    names = [machine.name for key in ids if (machine := side.machines.get(key))]
    commit = str(sweep.get("git_commit") or "unknown")[:7]
    dirty = " with changes" if sweep.get("git_dirty") else ""
    where = ", ".join(dict.fromkeys(names)) or "unknown machine"
    return f"{where}, {str(sweep.get('started'))[:16]}, commit {commit}{dirty}"


def verdict_line(found: Agreement) -> str:
    """The outcome in one line, with the numbers that made it."""
    counts = {verdict: sum(row.verdict == verdict for row in found.rows) for verdict in dict.fromkeys(_verdicts(found))}
    said = ", ".join(f"{count} {SAID.get(verdict, verdict)}" for verdict, count in counts.items())
    if found.median is None or found.worst is None:
        return f"nothing could be compared: {said}"
    limits = f"allowed: {percent(found.tolerance.median)}, {percent(found.tolerance.each)}"
    outcome = "reproduced" if found.holds else "not reproduced"
    return f"{outcome}: {said}; median difference {percent(found.median)}, largest {percent(found.worst)} ({limits})"


def _verdicts(found: Agreement) -> list[str]:
    return [row.verdict for row in found.rows]


def _table(rows: list[Row]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("point", "of roof then", "now", "difference", "time then", "now", "difference", "verdict"):
        left = name in ("point", "verdict")
        table.add_column(name, justify="left" if left else "right", overflow="ellipsis", no_wrap=True)
    for row in _shown(rows):
        table.add_row(*_cells(row))
    return table


def _shown(rows: list[Row]) -> list[Row]:
    wrong = [row for row in rows if row.verdict != "agrees"]
    return rows if len(rows) <= ROWS else [*wrong, *[row for row in rows if row.verdict == "agrees"]][:ROWS]


def _cells(row: Row) -> list[str]:
    shares = [percent(value) if row.basis == "fraction" and value is not None else "" for value in (row.old, row.new)]
    times = ["" if value is None else engineering(value, "s") for value in (row.old_time_s, row.new_time_s)]
    change = signed(row.difference) if row.basis == "fraction" else ""
    return [row.label, *shares, change, *times, signed(row.time_difference), row.verdict]


def signed(difference: float | None) -> str:
    """+1.3 %"""
    return "" if difference is None else f"{100 * difference:+.1f} %"
