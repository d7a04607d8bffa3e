"""What is said before roofs are measured: how many, about how long, and why again. Without a terminal it is all that a
user sees of them for a minute or more."""

from __future__ import annotations

from collections.abc import Sequence

from roofexp.machine import RoofSet
from roofexp.roofs.benchmark import Benchmark

WORTH_SAYING_S = 3.0
TYPICAL_S = 1.0  # of a benchmark that was never measured here: compiled, checked, timed
TYPICAL_CPU_DRAM_S = 12.0  # large arrays, filled and compared by the cores themselves
TAKES_THEM = "roofs=cached takes them as they are"


def notice(missing: Sequence[Benchmark], device: str, kept: RoofSet | None, code_version: str) -> str | None:
    """None where it is done before anybody wonders. ``kept``: what the roofs' file holds, used or not."""
    same = kept is not None and kept.code_version == code_version
    seconds = sum(
        kept.took_s[benchmark.name] if same and kept and benchmark.name in kept.took_s else typical_s(benchmark, device)
        for benchmark in missing
    )
    if seconds < WORTH_SAYING_S:
        return None
    roofs = f"{len(missing)} roof{'s' if len(missing) > 1 else ''} of this machine"
    if same and kept and kept.disturbed and kept.roofs:
        why = "other programs ran while the last were measured"
        return f"measuring {roofs} again, about {seconds:.0f} s: {why}; {TAKES_THEM}"
    return f"measuring {roofs}, about {seconds:.0f} s; they are kept"


def typical_s(benchmark: Benchmark, device: str) -> float:
    return TYPICAL_CPU_DRAM_S if device == "cpu" and benchmark.level == "dram" else TYPICAL_S
