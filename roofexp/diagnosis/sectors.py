"""Sectors that were touched in vain, and what they cost at each level of memory."""

from __future__ import annotations

from typing import Any

from roofexp.point import Counted

SECTOR_BYTES, WARP = 32, 32
WASTED = 0.1  # part of all sectors that is worth a word
STRADDLING = 16  # bytes used of a sector above which accesses are side by side and begin off its border
WIDEST_SECTORS = 16.5  # 32 threads with 16 bytes each touch 16
LEVELS = ("l1", "l2", "dram")
FREE, FULL = 0.5, 0.8  # a level at work for less of the time binds nothing; from FULL on it binds


def sector_facts(counted: Counted, itemsize: float, compulsory: float, busy: dict[str, float | None]) -> dict[str, Any]:
    """``busy`` is how much of the time each level is at work; ``compulsory`` the bytes of the operands."""
    facts = counted.facts
    loads, stores = facts.get("load_sectors"), facts.get("store_sectors")
    touched = None if loads is None or stores is None else loads + stores
    load_bytes = _bytes_used(facts.get("load_bytes_per_sector"), counted.sectors_per_load, itemsize)
    store_bytes = _bytes_used(facts.get("store_bytes_per_sector"), counted.sectors_per_store, itemsize)
    load_waste, store_waste = _waste(loads, load_bytes, touched), _waste(stores, store_bytes, touched)
    both = ((load_bytes, load_waste), (store_bytes, store_waste))
    straddle = sum(waste or 0.0 for used, waste in both if used is not None and used > STRADDLING)
    total = (load_waste or 0.0) + (store_waste or 0.0)
    cost = _cost(counted, total, (touched or 0.0) * SECTOR_BYTES * (1 - total), compulsory, busy) if total else 0.0
    part = cost / total if total else 0.0
    return {
        "sectors_per_load": counted.sectors_per_load,
        "sectors_per_store": counted.sectors_per_store,
        "load_bytes_per_sector": load_bytes if loads else None,
        "store_bytes_per_sector": store_bytes if stores else None,
        "load_waste": load_waste,
        "store_waste": store_waste,
        "straddle_waste": straddle,
        "load_waste_cost": None if load_waste is None else load_waste * part,
        "store_waste_cost": None if store_waste is None else store_waste * part,
        "straddle_waste_cost": straddle * part,
        "coalesced": float(total < WASTED),
    }


def _cost(counted: Counted, waste: float, asked: float, compulsory: float, busy: dict[str, float | None]) -> float:
    """The most that the waste costs at one level: bytes that were asked for, or must be moved once, are no waste there,
    however often their sectors were touched nearer to the SM; and what is idle half of the time is in nobody's way."""
    costs = [0.0]
    for level in LEVELS:
        moved = counted.facts.get("kernel_l1_bytes") if level == "l1" else counted.bytes_at(level)
        share = busy.get(level)
        if moved and share is not None:
            lost = min(waste, max(0.0, 1 - max(asked, compulsory) / moved))
            costs.append(lost * share * min(1.0, max(0.0, (share - FREE) / (FULL - FREE))))
    return max(costs)


def _bytes_used(counted: float | None, sectors: float | None, itemsize: float) -> float | None:
    """Bytes asked for of each sector. Less than one: asynchronous copies, whose bytes this counter does not see. Where
    they are not known: more sectors than the widest access needs mean that each thread had one of its own, of which it
    took an element."""
    seen = None if counted is not None and counted < 1 else counted
    if seen is not None or sectors is None or sectors <= WIDEST_SECTORS:
        return seen
    return min(float(SECTOR_BYTES), WARP * itemsize / sectors)


def _waste(sectors: float | None, bytes_used: float | None, all_sectors: float | None) -> float | None:
    """Sectors that carried nothing asked for, as a part of all sectors touched."""
    if sectors is None or not all_sectors:
        return None
    if not sectors:
        return 0.0
    return None if bytes_used is None else sectors / all_sectors * max(0.0, 1 - bytes_used / SECTOR_BYTES)
