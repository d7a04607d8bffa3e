"""Made facts for the diagnosis: a healthy stream on an H200, what each fault changes of it; timed points at will."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from roofexp.config.settings import PlacingSettings
from roofexp.diagnosis import diagnosed
from roofexp.placing.roofline import attainable, place
from roofexp.records.machine import Roof
from roofexp.records.point import Point
from tests.counted_sweep import ROOFS

SETTINGS = PlacingSettings(on_roof=0.85, far_below=0.30, above_roof=1.02, near_floor=3.0)
MIXES = {"read": 4.43e12, "write": 4.5e12, "copy": 4.05e12, "triad": 4.27e12}
H200 = msgspec.structs.replace(
    ROOFS,
    roofs=[
        Roof(name="dram", kind="bandwidth", level="dram", rate=4.5e12, mixes=MIXES),
        *(roof for roof in ROOFS.roofs if roof.level != "dram"),
        Roof(name="l1", kind="bandwidth", level="l1", rate=33e12),
        Roof(name="shared", kind="bandwidth", level="shared", rate=33e12),
        Roof(name="fp64 dmma", kind="compute", precision="fp64", rate=64e12),
        Roof(name="fp16 wgmma", kind="compute", precision="fp16", rate=980e12),
        Roof(name="tf32 wgmma", kind="compute", precision="tf32", rate=490e12),
        Roof(name="fp8 wgmma", kind="compute", precision="fp8", rate=1950e12),
        Roof(name="bf16 wgmma", kind="compute", precision="bf16", rate=980e12),
    ],
)

# A stream on its roof as the counters of an H200 show it: DRAM moves all it can, and nothing else is busy.
STREAM: dict[str, Any] = {
    "device": "cuda", "basis": "counters", "bound": "on the bandwidth roof", "cause": "93% of the dram roof",
    "roof": "dram", "precision": "fp32", "precision_bits": 32, "traffic_level": "dram", "time_s": 120e-6,
    "floor_s": 2e-6, "floors": 60.0, "launch_share": 1 / 60, "launches": 1, "working": 1 - 1 / 60, "fraction": 0.93,
    "compute_fraction": 0.02, "saving": 0.07, "ideal_floors": 56.0, "clock_share": 0.99, "throttled": 0.0,
    "clock_cost": "", "units": 132,
    "working_set_bytes": 5e8, "dram_fraction": 0.93, "dram_mix_fraction": 0.99,
    "dram_write_share": 0.5, "dram_mix_share": 0.94,
    "l2_fraction": 0.5, "l1_fraction": 0.13, "shared_fraction": 0.0,
    "issued_ratio": 1.0, "tensor_share": 0.0, "dram_ratio": 1.0, "busy": 0.93, "busiest": "DRAM", "idle": 0.07,
    "memory_busy": 0.93, "dram_pct": 90.0, "l1_pct": 20.0, "l2_pct": 45.0, "l1_data_pct": 15.0, "l1_hit_pct": 0.0,
    "l2_hit_pct": 33.0, "fma_pipe_pct": 3.0, "alu_pipe_pct": 3.0, "fp64_pipe_pct": 0.0, "tensor_pipe_pct": 0.0,
    "xu_pipe_pct": 0.0, "lsu_pipe_pct": 8.0, "tex_pipe_pct": 0.0, "uniform_pipe_pct": 1.0, "issue_pct": 12.0,
    "eligible_warps": 0.2, "active_warps": 14.0, "sm_idle": 0.02, "occupancy_pct": 88.0,
    "occupancy_possible_pct": 100.0, "occupancy_limiter": "warps", "waves": 31.0, "tail_share": 0.0,
    "block_threads": 256, "grid_blocks": 32736, "sm_count": 132, "registers": 32, "shared_bytes_per_block": 1024,
    "blocks_by_registers": 8, "blocks_by_shared_memory": 32, "blocks_by_warps": 8, "blocks_by_blocks": 32,
    "instructions": 1e7, "threads_per_instruction": 32.0, "threads_on_per_instruction": 31.9, "integer_share": 0.3,
    "conversion_share": 0.0, "sectors_per_load": 16.0, "sectors_per_store": 16.0, "load_bytes_per_sector": 32.0,
    "store_bytes_per_sector": 32.0, "load_waste": 0.0, "store_waste": 0.0, "straddle_waste": 0.0,
    "load_waste_cost": 0.0, "store_waste_cost": 0.0, "straddle_waste_cost": 0.0,
    "coalesced": 1.0, "conflict_share": 0.0,
    "local_share": 0.0, "local_bytes": 0.0, "atomic_operations": 0.0, "atomic_busy": 0.0, "warp_cycles": 100.0,
    "main_stall": "long scoreboard", "main_stall_share": 0.9, "on_roof": 0.85, "far_below": 0.3, "near_floor": 3.0,
    "above_roof": 1.02, **dict.fromkeys((f"stall_{r}" for r in (
        "barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle",
        "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "short_scoreboard",
        "sleeping", "tex_throttle", "wait")), 0.005), "stall_long_scoreboard": 0.9, "stall_latency": 0.91,
}  # fmt: skip
SLOW = {
    "fraction": 0.2,
    "bound": "latency-bound",
    "dram_fraction": 0.2,
    "dram_mix_fraction": 0.2,
    "saving": 0.8,
    "main_stall_share": 0.6,
}
SLOW |= {"busy": 0.3, "idle": 0.7, "memory_busy": 0.3, "dram_pct": 20.0, "l2_fraction": 0.1, "l2_pct": 15.0}
TIMED = {"basis": "time"}  # and nothing that only counters can say
TIME_FACTS = set(list(STREAM)[: list(STREAM).index("l2_fraction")]) | {
    "on_roof",
    "far_below",
    "near_floor",
    "above_roof",
}


def waits_for(reason: str) -> dict[str, Any]:
    return {**SLOW, "stall_long_scoreboard": 0.2, "stall_latency": 0.2, f"stall_{reason}": 0.6, "main_stall": reason}


FAULTS: dict[str, dict[str, Any]] = {
    "on the DRAM roof": {},
    "on the L3 roof": {"dram_fraction": 0.1, "dram_mix_fraction": 0.1, "l3_fraction": 0.9},
    "on the L2 roof": {"dram_fraction": 0.1, "dram_mix_fraction": 0.1, "l2_fraction": 0.9},
    "on the L1 roof": {"dram_fraction": 0.1, "dram_mix_fraction": 0.1, "l1_fraction": 0.9},
    "on the shared memory roof": {"dram_fraction": 0.1, "dram_mix_fraction": 0.1, "shared_fraction": 0.9},
    "on the compute roof": {"dram_fraction": 0.1, "dram_mix_fraction": 0.1, "compute_fraction": 0.95},
    "above a roof": {"bound": "above a roof", "fraction": 1.2},
    "launch floor": {**SLOW, "floors": 1.2, "launch_share": 1 / 1.2, "working": 1 - 1 / 1.2, "grid_blocks": 16},
    "many launches": {**SLOW, "launches": 16, "launch_share": 0.5, "working": 0.5, "saving": 0.6},
    "too little work": {**SLOW, **TIMED, "floors": 5.0, "ideal_floors": 1.0},
    "short launch": {**SLOW, "floors": 9.0, "launch_share": 1 / 9, "working": 8 / 9, "waves": 0.97, "sm_idle": 0.2,
                     "grid_blocks": 128, "stall_long_scoreboard": 0.1, "stall_latency": 0.2},
    "too few blocks": {**SLOW, "grid_blocks": 66, "waves": 0.1, "sm_idle": 0.5, "occupancy_pct": 50.0, "idle": 0.45},
    "tail wave": {**SLOW, "waves": 1.008, "tail_share": 0.496, "sm_idle": 0.49, "idle": 0.45, "grid_blocks": 133},
    "uneven work": {**SLOW, "sm_idle": 0.6, "idle": 0.6},
    "few warps": {**SLOW, "waves": 0.06, "occupancy_pct": 6.0, "grid_blocks": 132},
    "uncoalesced loads": {**SLOW, "load_bytes_per_sector": 4.0, "sectors_per_load": 32.0, "load_waste": 0.78,
                          "load_waste_cost": 0.7,
                          "coalesced": 0.0, "memory_busy": 0.9, "dram_ratio": 4.5, "dram_fraction": 0.9,
                          "dram_mix_fraction": 0.9},
    "uncoalesced stores": {**SLOW, "store_bytes_per_sector": 4.0, "sectors_per_store": 32.0, "store_waste": 0.78,
                           "store_waste_cost": 0.7,
                           "coalesced": 0.0, "memory_busy": 0.9},
    "misaligned access": {"saving": 0.4, "load_bytes_per_sector": 21.3, "sectors_per_load": 6.0, "load_waste": 0.32,
                          "straddle_waste": 0.32, "straddle_waste_cost": 0.3,
                          "coalesced": 0.0, "dram_ratio": 1.5},
    "extra DRAM traffic": {"dram_ratio": 1.67, "saving": 0.45},
    "bank conflicts": {**SLOW, "conflict_share": 0.9, "conflict_ways": 10.0, "l1_data_pct": 95.0,
                       "shared_fraction": 0.95, "busy": 0.95, "idle": 0.05},
    "spills": {**SLOW, "local_share": 0.8, "local_bytes": 1e9},
    "divergence": {**SLOW, "threads_per_instruction": 8.0, "busy": 0.95, "idle": 0.05, "fma_pipe_pct": 95.0},
    "between matrix products": {**SLOW, "tensor_share": 0.99, "tensor_pipe_pct": 65.0, "xu_pipe_pct": 34.0,
                                "busy": 0.65, "idle": 0.35, "stall_barrier": 0.35, "stall_long_scoreboard": 0.14},
    "padded tiles": {**SLOW, "issued_ratio": 8.0, "tensor_share": 1.0, "tensor_pipe_pct": 60.0, "idle": 0.3},
    "fp64 by accident": {**SLOW, "fp64_pipe_pct": 30.0, "xu_pipe_pct": 90.0, "conversion_share": 1.0, "idle": 0.1},
    "conversions": {**SLOW, "xu_pipe_pct": 90.0, "conversion_share": 1.0, "idle": 0.1},
    "special functions": {**SLOW, "xu_pipe_pct": 95.0, "idle": 0.05},
    "integer arithmetic": {**SLOW, "integer_share": 0.95, "alu_pipe_pct": 92.0, "compute_fraction": 0.0, "idle": 0.08},
    "atomics": {**SLOW, "atomic_operations": 65536.0, "atomic_busy": 0.95},
    "other instructions": {**SLOW, "issue_pct": 95.0, "idle": 0.05},
    "registers limit occupancy": {**SLOW, "occupancy_limiter": "registers", "occupancy_possible_pct": 12.5,
                                  "occupancy_pct": 12.4, "registers": 227},
    "shared memory limits occupancy": {**SLOW, "occupancy_limiter": "shared memory", "occupancy_possible_pct": 12.5,
                                       "occupancy_pct": 12.4, "shared_bytes_per_block": 98304},
    "block size limits occupancy": {**SLOW, "occupancy_possible_pct": 50.0, "occupancy_pct": 30.0,
                                    "block_threads": 1024},
    "dependent chain": {**waits_for("wait"), "stall_wait": 0.95, "stall_long_scoreboard": 0.0, "waves": 0.06,
                        "occupancy_pct": 6.25, "grid_blocks": 132, "issue_pct": 25.0},
    "memory latency": SLOW,
    "barriers": waits_for("barrier"),
    "short scoreboard": waits_for("short_scoreboard"),
    "queue of global accesses": waits_for("lg_throttle"),
    "queue of shared accesses": waits_for("mio_throttle"),
    "texture queue": waits_for("tex_throttle"),
    "arithmetic pipe": waits_for("math_pipe_throttle"),
    "memory barriers": waits_for("membar"),
    "branches": waits_for("branch_resolving"),
    "instruction cache": waits_for("no_instruction"),
    "constants": waits_for("imc_miss"),
    "sleeping": waits_for("sleeping"),
    "dispatcher": waits_for("dispatch_stall"),
    "stores at the end": waits_for("drain"),
    "warpgroup products": waits_for("gmma"),
    "throttled clock": {"throttled": 1.0, "clock_share": 0.72, "compute_fraction": 0.75, "dram_fraction": 0.1,
                        "dram_mix_fraction": 0.1},
    "below the bandwidth roof": {**SLOW, **TIMED, "bound": "bandwidth-bound", "fraction": 0.6, "dram_fraction": 0.6,
                                 "dram_mix_fraction": 0.6},
    "below the compute roof": {**SLOW, **TIMED, "bound": "compute-bound", "fraction": 0.6, "compute_fraction": 0.6},
    "far below both roofs": {**SLOW, **TIMED},
    "no single cause": {**SLOW, "stall_long_scoreboard": 0.2, "main_stall": "not selected"},
    "counted in part": {**SLOW, "stall_long_scoreboard": None, "main_stall": None},
}  # fmt: skip


def facts(changes: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in {**STREAM, **changes}.items() if value is not None}
    timed = found["basis"] == "time"
    return {name: value for name, value in found.items() if not timed or name in TIME_FACTS}


def timed_at(point: Point, intensity: float, share: float, written: float = 0.0) -> Point:
    """The point with other work, at this share of what the roofs allow; ``written`` is a part of its bytes."""
    assert point.work and point.timing and point.traffic and point.clock  # noqa: PT018
    moved = 10**9
    flops = int(intensity * moved)
    compute, dram = H200.compute("fp32"), H200.bandwidth("dram")
    assert compute and dram  # noqa: PT018
    rate = share * attainable(intensity, compute.at(point.clock.compute_hz), dram.rate)
    other = msgspec.structs.replace(
        point,
        work=msgspec.structs.replace(point.work, flops=flops, dram_bytes=moved, written_bytes=int(written * moved)),
        traffic=msgspec.structs.replace(point.traffic, bytes=moved),
        timing=msgspec.structs.replace(point.timing, median_s=flops / rate),
        flags=[],
    )
    placement, _ = place(other, H200, SETTINGS)
    return diagnosed(msgspec.structs.replace(other, placement=placement), H200, SETTINGS)


OWN_RULE = """
worth: 0.5
rules:
  - name: slow
    when: [{when}]
    score: {score}
    message: "at {{fraction:%}}"
    next_move: hurry
    evidence: [{{fact: {fact}, threshold: on_roof}}]
"""


def rules_file(folder: Path, text: str) -> str:
    (folder / "my.yaml").write_text(text)
    return str(folder / "my.yaml")
