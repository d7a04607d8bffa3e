"""The DRAM roof for a kernel's own mix of reads and writes: both directions share the pins, and turning round costs."""

from __future__ import annotations

from typing import Any

from roofexp.machine import Roof
from roofexp.point import Counted, Point

WRITTEN = {"read": 0.0, "triad": 1 / 3, "copy": 1 / 2, "write": 1.0}  # part of the bytes that each measured mix writes


def mix_facts(reached: Any, point: Point, roof: Roof | None, counted: Counted | None) -> dict[str, float | None]:
    """The part of the DRAM roof for this mix that is ``reached`` of the roof itself. Where the share of writes is not
    known both are the same."""
    if roof is None or not isinstance(reached, (int, float)):
        return {}
    written = write_share(point, counted)
    share = 1.0 if written is None else mix_share(roof, written)
    return {"dram_write_share": written, "dram_mix_share": share, "dram_mix_fraction": reached / share}


def write_share(point: Point, counted: Counted | None) -> float | None:
    """The part of the DRAM traffic that is written: as counted, else by the operands; None where neither is known."""
    if counted is not None:
        read, written = counted.facts.get("dram_read_bytes"), counted.facts.get("dram_write_bytes")
        if read is not None and written is not None and read + written:
            return written / (read + written)
    if point.work is None or point.work.written_bytes is None or not point.work.dram_bytes:
        return None
    return min(1.0, point.work.written_bytes / point.work.dram_bytes)


def mix_share(roof: Roof, written: float) -> float:
    """The rate of a mix as a part of the roof, which is that of the best mix: on the straight line between the two
    measured mixes that lie on either side of it, or that of the nearest one."""
    known = sorted((WRITTEN[name], rate) for name, rate in roof.mixes.items() if name in WRITTEN)
    if not known or not roof.rate:
        return 1.0
    below = max((mix for mix in known if mix[0] <= written), default=known[0])
    above = min((mix for mix in known if mix[0] >= written), default=known[-1])
    part = (written - below[0]) / (above[0] - below[0]) if above[0] > below[0] else 0.0
    return min(1.0, (below[1] + part * (above[1] - below[1])) / roof.rate)
