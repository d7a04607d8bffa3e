"""What counting cost and gave, in lines for a person, from the records alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofexp.diagnosis.verdict_table import count_right, expectation_table, expecting, verdict_table
from roofexp.records.point import Counted, Point
from roofexp.text.console import WIDTH_WITHOUT_TERMINAL, relative
from roofexp.text.numbers import engineering, percent, rate_text


def counting_lines(points: list[Point]) -> list[str]:
    """Empty for a sweep whose points wanted no counters. A cause that is the same for several is said once."""
    wanted = [point for point in points if point.counted is not None]
    done = [point.counted for point in wanted if point.counted and point.counted.unavailable is None]
    lines = [_cost(done, len(wanted))] if done else []
    for reason, number in _reasons(wanted).items():
        which = "none" if not done and number == len(wanted) else f"none for {number} of {len(wanted)} points"
        lines.append(f"counters {which}: {reason}; their traffic is modelled")
    notes = dict.fromkeys(counted.peak_note for counted in done if counted.peak_note)
    if notes:
        first = next(iter(notes))
        lines.append(f"  peaks: {first}" + (f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""))
    return lines


def _cost(done: list[Counted], wanted: int) -> str:
    passes = sorted({counted.passes for counted in done if counted.passes})
    between = (
        f"{passes[0]} to {passes[-1]}" if len(passes) > 1 else f"{passes[0]}" if passes else "an unknown number of"
    )
    plural = "" if passes == [1] else "es"
    level = ", ".join(dict.fromkeys(counted.level or "named metrics" for counted in done))
    versions = ", ".join(dict.fromkeys(counted.ncu_version or "unknown version" for counted in done))
    seconds = sum(counted.counting_s for counted in done)
    return f"counters {len(done)} of {wanted} points: {level}, {between} pass{plural}, {seconds:.1f} s, ncu {versions}"


def _reasons(points: list[Point]) -> dict[str, int]:
    found: dict[str, int] = {}
    for point in points:
        reason = point.counted.unavailable if point.counted else None
        if reason:
            found[reason] = found.get(reason, 0) + 1
    return found


ROWS = 40  # a longer sweep shows its first rows; the rest is in points.csv


def counts(points: list[Point]) -> dict[str, int]:
    return {status: sum(point.status == status for point in points) for status in ("ok", "failed", "skipped")}


def print_summary(folder: Path, points: list[Point], figures: list[Path], notes: list[str]) -> None:
    """The verdict of every point, then paths relative to the working folder, then what to do next."""
    from rich.console import Console

    terminal = Console()
    console = terminal if terminal.is_terminal else Console(width=WIDTH_WITHOUT_TERMINAL)
    console.print(_table(points[:ROWS]))
    if len(points) > ROWS:
        console.print(f"… {len(points) - ROWS} more points in {relative(folder / 'points.csv')}")
    for table in _verdicts(points):
        console.print()
        console.print(table)
    for line in _lines(folder, points, figures, notes):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _verdicts(points: list[Point]) -> list[Any]:
    """What to do, verdict by verdict; where verdicts were expected, which of them were found."""
    if expecting(points):
        return [expectation_table(points)]
    table = verdict_table(points)
    return [table] if table else []


def _lines(folder: Path, points: list[Point], figures: list[Path], notes: list[str]) -> list[str]:
    number = counts(points)
    outcome = f"{number['ok']} ok"
    for status in ("failed", "skipped"):
        if number[status]:
            outcome += f", {number[status]} {status}"
    lines = [outcome]
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
    found: dict[str, list[str]] = {}
    for point in points:
        for flag in point.flags:
            found.setdefault(flag.name, []).append(f"{point.label}: {flag.message}")
    return [
        f"  ! {name}: {messages[0]}" + (f" (and {len(messages) - 1} more)" if len(messages) > 1 else "")
        for name, messages in found.items()
    ]


def _table(points: list[Point]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("kernel", "size", "precision", "time", "rate", "FLOP/B", "bound", "of roof", "flag"):
        right = name in ("size", "time", "rate", "FLOP/B", "of roof")
        table.add_column(name, justify="right" if right else "left", overflow="ellipsis", no_wrap=True)
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
