"""What is printed at the end of a sweep, from its records: the table of points, verdicts, problems and files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from roofexp.diagnosis.verdict_table import count_right, expectation_table, expecting, verdict_table
from roofexp.records.point import Counted, Point
from roofexp.text.console import open_console, plain_table, relative
from roofexp.text.numbers import engineering, percent, rate_text


def counting_lines(points: list[Point]) -> list[str]:
    """What counting gave and cost. Each cause of missing counters is one line. Empty where nothing was counted."""
    records = [point.counted for point in points if point.counted is not None]
    counted = [record for record in records if record.unavailable is None]
    lines = [_cost(counted, len(records))] if counted else []
    for reason, number in Counter(record.unavailable for record in records if record.unavailable).items():
        which = "none" if number == len(records) else f"none for {number} of {len(records)} points"
        lines.append(f"counters {which}: {reason}; their traffic is modelled")
    notes = list(dict.fromkeys(record.peak_note for record in counted if record.peak_note))
    if notes:
        lines.append(f"  peaks: {_first_of(notes)}")
    return lines


def _first_of(messages: list[str]) -> str:
    return messages[0] + (f" (and {len(messages) - 1} more)" if len(messages) > 1 else "")


def _cost(counted: list[Counted], number: int) -> str:
    passes = sorted({record.passes for record in counted if record.passes})
    span = " to ".join(dict.fromkeys(map(str, (passes[0], passes[-1])))) if passes else "an unknown number of"
    plural = "" if passes == [1] else "es"
    level = ", ".join(dict.fromkeys(record.level or "named metrics" for record in counted))
    versions = ", ".join(dict.fromkeys(record.ncu_version or "unknown version" for record in counted))
    seconds = sum(record.counting_s for record in counted)
    return f"counters {len(counted)} of {number} points: {level}, {span} pass{plural}, {seconds:.1f} s, ncu {versions}"


ROWS = 40  # a longer sweep shows its first rows; the rest is in points.csv


def counts(points: list[Point]) -> dict[str, int]:
    return {status: sum(point.status == status for point in points) for status in ("ok", "failed", "skipped")}


def print_summary(folder: Path, points: list[Point], figures: list[Path], notes: list[str]) -> None:
    """The verdict of every point, then paths relative to the working folder, then what to do next."""
    console = open_console()
    console.print(_table(points[:ROWS]))
    if len(points) > ROWS:
        console.print(f"… {len(points) - ROWS} more points in {relative(folder / 'points.csv')}")
    if table := _verdicts(points):
        console.print()
        console.print(table)
    for line in _lines(folder, points, figures, notes):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _verdicts(points: list[Point]) -> Any:
    """What to do, verdict by verdict; where verdicts were expected, which of them were right. None without any."""
    return expectation_table(points) if expecting(points) else verdict_table(points)


def _lines(folder: Path, points: list[Point], figures: list[Path], notes: list[str]) -> list[str]:
    number = counts(points)
    lines = [", ".join(f"{number[status]} {status}" for status in number if status == "ok" or number[status])]
    for point in points:
        if point.status != "ok":
            lines.append(f"  {point.status} {point.label} ({' '.join(point.overrides) or 'defaults'}): {point.reason}")
    lines += [count_right(points)] if expecting(points) else []
    lines += _flag_lines(points)
    lines += counting_lines(points)
    lines.append(f"results  {relative(folder)}")
    lines += [f"figure   {relative(figure)}" for figure in figures if figure.suffix == ".png"]
    return lines + notes


def _flag_lines(points: list[Point]) -> list[str]:
    """Each kind of flag once, with its first message."""
    messages: dict[str, list[str]] = {}
    for point in points:
        for flag in point.flags:
            messages.setdefault(flag.name, []).append(f"{point.label}: {flag.message}")
    return [f"  ! {name}: {_first_of(of_kind)}" for name, of_kind in messages.items()]


def _table(points: list[Point]) -> Any:
    columns = ("kernel", "size", "precision", "time", "rate", "FLOP/B", "bound", "of roof", "flag")
    table = plain_table(columns, right=("size", "time", "rate", "FLOP/B", "of roof"))
    for point in points:
        table.add_row(*_cells(point))
    return table


def _cells(point: Point) -> list[str]:
    cells = [point.kernel, str(point.size), point.precision]
    if point.status != "ok" or point.timing is None:
        return [*cells, "", "", "", point.status, "", point.reason_kind or ""]
    cells += [engineering(point.timing.median_s, "s"), rate_text(point.flops_per_s, point.bytes_per_s)]
    place = point.placement
    if place is None:
        return [*cells, "", "", "", _flags(point)]
    intensity = "" if place.intensity_flop_per_byte is None else f"{place.intensity_flop_per_byte:.3g}"
    fraction = "" if place.fraction is None else f"{percent(place.fraction)} {place.roof}"
    return [*cells, intensity, place.bound, fraction, _flags(point)]


def _flags(point: Point) -> str:
    return ", ".join(flag.name for flag in point.flags)
