"""The comparison as a person reads it: changes first, the largest on top, and one line for what did not change."""

from __future__ import annotations

import math
from typing import Any

from roofexp.compare.comparison import Comparison, Unmatched
from roofexp.compare.difference import CHANGED, Difference, Values
from roofexp.text.console import open_console, plain_table
from roofexp.text.numbers import engineering, percent, signed

ROWS = 40
LINES = 12  # of what has no partner
COLUMNS = ("point", "time A", "time B", "time", "95 % interval", "rate", "FLOP/B", "of roof", "cycles")
COLOURS = {"slower": "red", "faster": "green"}


def show(comparison: Comparison, every: bool = False) -> None:
    """To the terminal; ``every``: a row for unchanged points too."""
    console = open_console()
    for line in heading(comparison):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    rows = rows_of(comparison, every)
    if rows:
        console.print(_table(rows[:ROWS]))
    if len(rows) > ROWS:
        console.print(f"… {len(rows) - ROWS} more rows in comparison.csv", markup=False, highlight=False)
    for line in closing(comparison, every):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def heading(comparison: Comparison) -> list[str]:
    sides = {"A": (comparison.a, comparison.a_commit), "B": (comparison.b, comparison.b_commit)}
    lines = []
    for side, (name, commit) in sides.items():
        code = f"  (git {commit[:10]}{'-dirty' if commit.endswith('-dirty') else ''})" if commit else ""
        lines.append(f"{side}  {name}{code}")
    lines.append(f"on {' and '.join(comparison.machines)}")
    return [*lines, f"compared across {', '.join(comparison.across)}"] if comparison.across else lines


def rows_of(comparison: Comparison, every: bool) -> list[Difference]:
    """Changed, then changed by the clock alone, then unresolved ones, each with the largest change first."""
    by_clock = comparison.with_verdict("slower by the clock", "faster by the clock")
    others = [*by_clock, *comparison.with_verdict("unresolved", *(["unchanged"] if every else []))]
    return [*comparison.changed, *sorted(others, key=importance)]


def importance(difference: Difference) -> tuple[int, float]:
    """Sorts changes before what the clock did, that before what is unresolved, and unchanged ones last."""
    group = 0 if difference.verdict in CHANGED else 1 if difference.verdict.endswith("by the clock") else 2
    return group + (difference.verdict == "unchanged"), -abs(math.log(difference.time_ratio))


def verdict_line(comparison: Comparison) -> str:
    """``2 slower, 1 faster, 9 unchanged of 12``."""
    verdicts = [difference.verdict for difference in comparison.differences]
    order = (
        *("slower", "slower in cycles", "slower by the clock", "faster", "faster in cycles", "faster by the clock"),
        *("unresolved", "unchanged"),
    )
    parts = [f"{verdicts.count(name)} {name}" for name in order if name in verdicts]
    return f"{', '.join(parts)} of {len(verdicts)}"


def closing(comparison: Comparison, every: bool = False) -> list[str]:
    lines = [verdict_line(comparison)]
    unchanged = comparison.with_verdict("unchanged")
    if unchanged and not every:
        largest = min(unchanged, key=importance)
        lines.append(f"  unchanged: at most {signed(largest.time_ratio - 1)} ({largest.label})")
    for name, points in (("A", comparison.only_a), ("B", comparison.only_b)):
        lines += _unmatched(name, points)
    lines += [f"  ! {note}" for note in comparison.notes]
    return [*lines, test_line(comparison)]


def test_line(comparison: Comparison) -> str:
    """What "changed" means here."""
    source = "measured from repeated runs" if comparison.measured_floor is not None else "assumed; --repeats tells"
    points = ", more where few samples spread far or a point is flagged" if comparison.measured_floor is None else ""
    return (
        f"changed: by more than {percent(comparison.floor)} ({source}){points}; "
        f"{percent(comparison.level)} chance of one false change in all {comparison.tests} tests (Holm)"
    )


def _unmatched(name: str, points: list[Unmatched]) -> list[str]:
    labels = [f"{point.label} ({point.reason})" if point.reason else point.label for point in points[:LINES]]
    lines = [f"  only in {name}: {label}" for label in labels]
    return [*lines, f"  only in {name}: {len(points) - LINES} more"] if len(points) > LINES else lines


def _table(rows: list[Difference]) -> Any:
    texts = [cells(row) for row in rows]
    used = [i for i in range(len(COLUMNS)) if any(text[i] for text in texts)]
    table = plain_table([*(COLUMNS[i] for i in used), "verdict"], right=COLUMNS[1:], folding={"verdict": 1})
    for row, text in zip(rows, texts, strict=True):
        table.add_row(*(text[i] for i in used), _verdict(row))
    return table


def cells(row: Difference) -> list[str]:
    """One text for each of COLUMNS."""
    return [
        _label(row),
        engineering(row.a.time_s, "s"),
        engineering(row.b.time_s, "s"),
        signed(row.time_ratio - 1),
        f"{signed(row.low - 1)} … {signed(row.high - 1)}" if row.high < 1e3 else "unknown",
        _change(row.rate_ratio),
        _change(row.intensity_ratio),
        _fractions(row.a, row.b),
        _change(row.cycles_ratio),
    ]


def _label(row: Difference) -> str:
    others = [f"{a} → {b}" for name, (a, b) in row.differs.items() if name != "implementation"]
    return f"{row.label} ({'; '.join(others)})" if others else row.label


def _change(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return "=" if abs(ratio - 1) < 5e-4 else signed(ratio - 1)


def _fractions(a: Values, b: Values) -> str:
    if a.fraction is None or b.fraction is None:
        return ""
    return f"{percent(a.fraction)} → {percent(b.fraction)}"


def _verdict(row: Difference) -> Any:
    from rich.text import Text

    colour = COLOURS.get(row.verdict.split()[0], "") if "clock" not in row.verdict else "yellow"
    text = Text(row.verdict, style=colour)
    flags = sorted({*row.a.flags, *row.b.flags})
    message = row.message if not row.message.startswith(row.verdict.split()[0]) else row.message.split(": ", 1)[-1]
    if message:
        text.append(f": {message}", style="default")
    return text.append(f"  ! {', '.join(flags)}", style="yellow") if flags else text
