"""The facts that the rules of the diagnosis ask for, from a timed point, its roofs and its counters."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from roofexp.config.settings import PlacingSettings
from roofexp.kernel.precision import STORAGE
from roofexp.placing.roofline import least_time_s, mix_facts, model_traffic
from roofexp.records.machine import LEVELS, RoofSet
from roofexp.records.point import Counted, Point
from roofexp.text.numbers import percent

SECTOR_BYTES, WARP = 32, 32
WASTED = 0.1  # part of all sectors that is worth a word
STRADDLING = 16  # bytes used of a sector above which accesses are side by side and begin off its border
WIDEST_SECTORS = 16.5  # 32 threads with 16 bytes each touch 16
SECTOR_LEVELS = ("dram", "l2", "l1")  # that move data in sectors
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
    for level in SECTOR_LEVELS:
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


Facts = dict[str, float | str]
WAVEFRONT_BYTES = 128
LATENCIES = ("long_scoreboard", "lg_throttle", "short_scoreboard", "wait")  # what other warps can fill
PIPES = ("fma", "alu", "fp64", "tensor", "xu", "lsu", "tex")


class Meaning(msgspec.Struct, frozen=True):
    """``unit`` is share (a part of one), % (of a hundred), text, an SI unit, or empty for a plain number."""

    label: str
    unit: str


@functools.cache
def vocabulary() -> dict[str, Meaning]:
    """Every fact that a rule may ask for; see the comments in facts.yaml."""
    import yaml

    return msgspec.convert(yaml.safe_load(Path(__file__).with_name("facts.yaml").read_text()), dict[str, Meaning])


def facts_of(point: Point, roofs: RoofSet | None, settings: PlacingSettings) -> Facts:
    """All facts of a timed point. Counts belong to the profiled run, rates to the time of the events."""
    counted = point.counted if point.counted and point.counted.unavailable is None else None
    facts: dict[str, float | str | None] = {
        "on_roof": settings.on_roof,
        "far_below": settings.far_below,
        "near_floor": settings.near_floor,
        "above_roof": settings.above_roof,
        "device": point.device,
        "basis": "counters" if counted else "time",
        "precision": point.precision,
        "precision_bits": 8 * STORAGE[point.precision][1] if point.precision in STORAGE else None,
        "traffic_level": point.traffic.level if point.traffic else None,
        "working_set_bytes": point.work.working_set_bytes if point.work else None,
        "throttled": float(any(flag.name == "throttled" for flag in point.flags)),
        **_placed(point),
        **_timed(point, roofs, counted),
    }
    if counted:
        facts |= _work(point, counted) | _launch(counted) | _memory(counted)
        facts |= _without_conflicts(facts) | _instructions(counted) | _stalls(counted)
        facts |= _use(facts)
        compulsory = float(point.work.dram_bytes) if point.work else 0.0
        itemsize = STORAGE.get(point.precision, STORAGE["fp32"])[1]
        facts |= sector_facts(counted, itemsize, compulsory, _levels_busy(facts))
    facts |= mix_facts(facts.get("dram_fraction"), point, roofs.bandwidth("dram") if roofs else None, counted)
    return {
        key: value
        for key, value in facts.items()
        if value is not None and (isinstance(value, str) or math.isfinite(value))
    }


def _placed(point: Point) -> dict[str, Any]:
    place = point.placement
    if place is None:
        return {}
    levels = {f"{level}_fraction": share for level, share in place.roof_fractions.items() if level in LEVELS}
    return {
        "bound": place.bound,
        "cause": place.cause,
        "roof": place.roof,
        "fraction": place.fraction,
        "compute_fraction": 0.0 if point.work and not point.work.flops else place.roof_fractions.get("compute"),
        **levels,
    }


def _timed(point: Point, roofs: RoofSet | None, counted: Counted | None) -> dict[str, Any]:
    """Time against the launch floor, the roofs and the least time of the formula's work. The floor is that of an empty
    launch timed in the same way: alone with cold caches, in a row with warm ones."""
    if point.timing is None:
        return {}
    time_s, machine = point.time_at_clock_s or point.timing.median_s, roofs.machine if roofs else None
    launch = roofs.launch() if roofs else None
    floor_s = max(point.timing.floor_s or 0.0, launch.rate if launch else 0.0) or None
    launches = sum(kernel.launches for kernel in counted.kernels) if counted and counted.kernels else 1
    clock_hz = point.compute_hz
    least_s = _least_s(point, roofs, clock_hz)
    clock_share = clock_hz / machine.nominal_hz if machine and machine.nominal_hz and clock_hz else None
    return {
        "time_s": time_s,
        "floor_s": floor_s,
        "floors": time_s / floor_s if floor_s else None,
        "launches": launches,
        "launch_share": min(1.0, launches * floor_s / time_s) if floor_s else None,
        "working": max(0.0, 1 - launches * floor_s / time_s) if floor_s else 1.0,
        "saving": max(0.0, 1 - least_s / time_s) if least_s is not None else None,
        "ideal_floors": least_s / floor_s if least_s is not None and floor_s else None,
        "units": machine.units if machine else None,
        "clock_share": clock_share,
        "clock_cost": _clock_cost(point, clock_share),
        **(_level_fractions(counted, roofs, clock_hz, time_s) if counted and roofs else {}),
    }


def _clock_cost(point: Point, clock_share: float | None) -> str:
    """What the clock adds to a sentence about arithmetic; empty where it was not held back."""
    if clock_share is None or clock_share >= 0.95 or not any(flag.name == "throttled" for flag in point.flags):
        return ""
    return f", {percent(clock_share)} of the highest: power or heat takes the rest"


def _least_s(point: Point, roofs: RoofSet | None, clock_hz: float | None) -> float | None:
    """The least time for the useful FLOPs and the compulsory bytes, at the clock held."""
    if roofs is None or point.work is None:
        return None
    traffic = point.traffic
    if not point.work.dram_bytes and point.counted is None and traffic and traffic.source == "counted":
        return None  # a row of an older table: its compulsory bytes are not known
    at_clock = msgspec.structs.replace(
        roofs, roofs=[msgspec.structs.replace(roof, rate=roof.at(clock_hz)) for roof in roofs.roofs]
    )
    modelled = model_traffic(point.work, roofs.machine, point.cache_state == "cold")
    return least_time_s(point.work, modelled, point.precision, at_clock)


def _level_fractions(counted: Counted, roofs: RoofSet, clock_hz: float | None, time_s: float) -> dict[str, Any]:
    return {
        f"{level}_fraction": moved / time_s / roof.at(clock_hz)
        for level in LEVELS
        if (moved := counted.bytes_at(level)) is not None and (roof := roofs.bandwidth(level)) is not None
    }


def _work(point: Point, counted: Counted) -> dict[str, Any]:
    """Issued against useful work."""
    issued = {kind: flops for kind, flops in counted.flops_by_type.items() if flops}
    total, compulsory = sum(issued.values()), point.work.dram_bytes if point.work else 0
    tensor, cold = sum(flops for kind, flops in issued.items() if "_tensor" in kind), point.cache_state == "cold"
    return {
        "issued_ratio": counted.flops_ratio,
        "tensor_share": tensor / total if total else 0.0 if counted.flops == 0 else None,
        "dram_ratio": counted.dram_bytes / compulsory if cold and compulsory and counted.dram_bytes else None,
    }


def _launch(counted: Counted) -> dict[str, Any]:
    """The launch's shape and how it fills the SMs."""
    facts = counted.facts
    shape = ("block_threads", "grid_blocks", "sm_count", "shared_bytes_per_block")
    fits = ("blocks_by_registers", "blocks_by_shared_memory", "blocks_by_warps", "blocks_by_blocks")
    waves, active, cycles = counted.waves, facts.get("sm_active_cycles"), facts.get("kernel_cycles")
    return {
        **{name: facts.get(name) for name in (*shape, *fits)},
        "registers": counted.registers,
        "waves": waves,
        "tail_share": 1 - waves / math.ceil(waves) if waves else None,
        "occupancy_pct": counted.occupancy_pct,
        "occupancy_possible_pct": counted.occupancy_possible_pct,
        "occupancy_limiter": counted.occupancy_limiter,
        "sm_idle": max(0.0, 1 - active / cycles) if active is not None and cycles else None,
    }


def _memory(counted: Counted) -> dict[str, Any]:
    facts = counted.facts
    local = _sum(facts.get("local_load_bytes"), facts.get("local_store_bytes"))
    atomics = _sum(facts.get("atomic_requests"), facts.get("reduction_requests"))
    l1_bytes = facts.get("kernel_l1_bytes")
    return {
        **{name: facts.get(name) for name in ("l1_pct", "l2_pct", "l1_data_pct", "l1_hit_pct", "l2_hit_pct")},
        "dram_pct": counted.sol_dram_pct,
        **_conflicts(facts),
        "local_bytes": local,
        "local_share": min(1.0, local / l1_bytes) if local is not None and l1_bytes else None,
        "atomic_operations": atomics,
        "atomic_busy": facts["atomic_unit_pct"] / 100 if "atomic_unit_pct" in facts else None,
    }


def _conflicts(facts: dict[str, float]) -> dict[str, Any]:
    """Wavefronts of shared memory beyond those that the bytes need. ncu's own count of conflicts also holds waiting for
    other traffic, so that the smaller of both ways to count is taken."""
    wavefronts, conflicts = facts.get("shared_wavefronts"), facts.get("shared_bank_conflicts")
    asked = facts.get("shared_asked_bytes")
    if not wavefronts or conflicts is None:
        return {"conflict_share": 0.0 if wavefronts == 0 else None}
    share = conflicts / wavefronts
    if asked is not None:
        share = min(share, max(0.0, 1 - asked / (WAVEFRONT_BYTES * wavefronts)))
    return {"conflict_share": min(1.0, share), "conflict_ways": 1 / (1 - share) if share < 1 else None}


def _without_conflicts(facts: dict[str, Any]) -> dict[str, Any]:
    """Conflicts are counted as bytes of shared memory: of its roof only the rest is reached."""
    reached, lost = facts.get("shared_fraction"), facts.get("conflict_share")
    return {} if reached is None or lost is None else {"shared_fraction": reached * (1 - lost)}


def _instructions(counted: Counted) -> dict[str, Any]:
    facts = counted.facts
    pipes = {f"{pipe}_pipe_pct": facts.get(f"{pipe}_pipe_pct") for pipe in (*PIPES, "uniform")}
    instructions, on = facts.get("instructions"), facts.get("threads_on_per_instruction")
    threads = instructions * on if instructions and on else None
    integers = _sum(facts.get("integer_thread_instructions"), facts.get("bit_thread_instructions"))
    xu, conversions = facts.get("xu_instructions"), facts.get("conversion_thread_instructions")
    return {
        **pipes,
        **{name: facts.get(name) for name in ("issue_pct", "eligible_warps", "active_warps", "instructions")},
        "threads_per_instruction": facts.get("threads_per_instruction"),
        "threads_on_per_instruction": on,
        "integer_share": min(1.0, integers / threads) if integers is not None and threads else None,
        "conversion_share": min(1.0, conversions / (xu * on)) if conversions is not None and xu and on else None,
    }


def _stalls(counted: Counted) -> dict[str, Any]:
    """Each reason's part of all waiting; being issued is no waiting."""
    cycles = {reason: value for reason, value in counted.stalls.items() if reason != "selected"}
    total = sum(cycles.values())
    if not total:
        return {}
    main = max(cycles, key=lambda reason: cycles[reason])
    return {
        **{f"stall_{reason}": value / total for reason, value in cycles.items()},
        "stall_latency": sum(cycles.get(reason, 0.0) for reason in LATENCIES) / total,
        "main_stall": main.replace("_", " "),
        "main_stall_share": cycles[main] / total,
        "warp_cycles": sum(counted.stalls.values()),
    }


def _levels_busy(facts: dict[str, Any]) -> dict[str, float | None]:
    return {level: _most(facts.get(f"{level}_pct"), facts.get(f"{level}_fraction")) for level in SECTOR_LEVELS}


def _use(facts: dict[str, Any]) -> dict[str, Any]:
    """The busiest unit. Its idle time is the part in which no unit keeps the kernel from working."""
    memory = _levels_busy(facts)
    data = _most(facts.get("l1_data_pct"), facts.get("shared_fraction"))
    rest = {f"{pipe} pipe": _most(facts.get(f"{pipe}_pipe_pct"), None) for pipe in PIPES}
    rest |= {"issue slots": _most(facts.get("issue_pct"), None), "compute": _most(None, facts.get("compute_fraction"))}
    use = {**{level.upper(): share for level, share in memory.items()}, "shared memory": data, **rest}
    shares = {name: share for name, share in use.items() if share is not None}
    if not shares or facts.get("issue_pct") is None:  # without the schedulers nobody knows that nothing was busy
        return {"memory_busy": _largest(memory.values())}
    busiest = max(shares, key=lambda name: shares[name])
    return {
        "busiest": busiest,
        "busy": shares[busiest],
        "idle": 1 - shares[busiest],
        "memory_busy": _largest([*memory.values(), data]),
    }


def _most(pct: float | None, share: float | None) -> float | None:
    largest = _largest([None if pct is None else pct / 100, share])
    return None if largest is None else min(1.0, largest)


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second
