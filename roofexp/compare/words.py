"""What the comparison says about a pair, in one line."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofexp.compare.reading import Reading, clock_hz
from roofexp.point import Point
from roofexp.units import engineering, percent, plain, size_name

CLOCK_MOVED = 0.005  # less is not worth a word


def message(verdict: str, reading: Reading, reach: float) -> str:
    """``reach``: how far from no change the interval goes, relative. Empty where the verdict says it all."""
    if verdict == "unresolved":
        return f"up to {percent(reach)} may hide in it"
    clock = clock_words(reading.a, reading.b)
    cycles = signed(math.expm1(reading.cycles.log_ratio)) if reading.cycles else ""
    if verdict.endswith("by the clock"):
        return f"{verdict.split()[0]} in time, equal in cycles ({cycles}): {clock}"
    if verdict.endswith("in cycles"):
        return f"equal in time, {cycles} cycles: {clock or 'the clock moved'}"
    if verdict == "unchanged" or not clock:
        return ""
    if cycles:
        return f"{clock}; in cycles {cycles}"
    memory = all(point.placement and "bandwidth" in point.placement.bound for point in (reading.a, reading.b))
    return f"{clock}, but memory binds" if memory else clock


def clock_words(a: Point, b: Point) -> str:
    """``the clock fell from 1.98 GHz to 1.74 GHz``; empty where it stayed or is unknown."""
    before, after = clock_hz(a), clock_hz(b)
    if not before or not after or abs(after / before - 1) < CLOCK_MOVED:
        return ""
    word = "rose" if after > before else "fell"
    return f"the clock {word} from {engineering(before, 'Hz')} to {engineering(after, 'Hz')}"


def signed(share: float) -> str:
    """``+3.1 %``, ``-0.4 %``, ``-45 %``; from tenfold on ``×12``."""
    if not math.isfinite(share):
        return "unknown"
    if share >= 9:
        return f"×{plain(1 + share)}"
    if abs(share) < 0.0005:
        return "0.0 %"
    return f"{100 * share:+.{1 if abs(share) < 0.0995 else 0}f} %"


def label(point: Point, varying: set[str]) -> str:
    """Kernel, size, precision, and what else is out of the ordinary; ``varying``: the parameters worth naming."""
    name = [point.kernel, size_name(point.size), point.precision]
    words = [*name, *(f"{key}={value}" for key, value in sorted(point.params.items()) if key in varying)]
    ordinary = {"cold", "observe", "normal"}
    return " ".join([*words, *(w for w in (point.cache_state, point.clock_mode, point.fill) if w not in ordinary)])


def varying_params(points: Sequence[Point]) -> dict[str, set[str]]:
    """By kernel, the parameters that tell its points apart."""
    seen: dict[str, dict[str, set[str]]] = {}
    for point in points:
        for key, value in point.params.items():
            seen.setdefault(point.kernel, {}).setdefault(key, set()).add(str(value))
    return {kernel: {key for key, values in found.items() if len(values) > 1} for kernel, found in seen.items()}
