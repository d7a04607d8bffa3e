"""What counting cost and gave, in lines for a person, from the records alone."""

from __future__ import annotations

from roofexp.point import Counted, Point


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
