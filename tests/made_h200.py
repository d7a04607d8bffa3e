"""Made-up sweeps on an H200 whose roofs were measured (data/h200), for tests of figures only.

Clocks, powers and energies have the sizes that such a GPU shows; nothing here is a result.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import msgspec

from roofexp.records.machine import RoofSet, Sustained

ROOFS = Path(__file__).parent / "data" / "h200" / "roofs.json"
LAUNCH_S = 2.0e-6
ITEMSIZE = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
HELD_HZ = {0.3: 1.629e9, 0.5: 1.622e9, 0.7: 1.596e9, 0.8: 1.576e9, 0.9: 1.50e9, 1.0: 1.423e9}  # bf16 GEMM by duty


@functools.cache
def h200() -> RoofSet:
    return msgspec.json.decode(ROOFS.read_bytes(), type=list[RoofSet])[0]


def with_sustained() -> RoofSet:
    """The same with a sustained figure for each tensor-core roof."""
    roofs = []
    for roof in h200().roofs:
        if roof.precision in ("bf16", "fp16", "fp8") and "tensor" in roof.name and roof.ceiling_of is None:
            held = Sustained(rate=0.985 * roof.at(1.40e9), compute_hz=1.40e9, power_w=695.0, seconds=20.0)
            roof = msgspec.structs.replace(roof, sustained=held)
        roofs.append(roof)
    return msgspec.structs.replace(h200(), roofs=roofs)


def point(
    kernel: str,
    size: int,
    precision: str,
    flops: float,
    moved: float,
    hz: float = 1.98e9,
    best: float = 0.9,
    level: str = "dram",
    **changes: Any,
) -> dict[str, Any]:
    """A row of points.csv: ``best`` of the roof at the clock, plus what a launch costs."""
    compute, bandwidth = h200().compute(precision), h200().bandwidth(level)
    assert compute
    assert bandwidth
    peak, wide = compute.at(hz), bandwidth.at(hz)
    time_s = max(flops / peak, moved / wide) / best + LAUNCH_S
    attainable = min(peak, flops / moved * wide) if flops else wide
    fraction = (flops or moved) / time_s / attainable
    binds = flops / moved < peak / wide
    return {
        "job": 0,
        "kernel": kernel,
        "implementation": "cuda",
        "size": size,
        "precision": precision,
        "clock_mode": "observe",
        "cache_state": "cold",
        "fill": "normal",
        "device": "cuda",
        "machine_id": h200().machine.machine_id,
        "status": "ok",
        "time_s": time_s,
        "time_p5_s": 0.99 * time_s,
        "time_p95_s": 1.02 * time_s,
        "flops": flops,
        "traffic_bytes": moved,
        "useful_bytes": moved,
        "working_set_bytes": moved,
        "traffic_level": level,
        "traffic_source": "counted",
        "flops_per_s": flops / time_s if flops else None,
        "bytes_per_s": moved / time_s,
        "intensity_flop_per_byte": flops / moved,
        "attainable_per_s": attainable,
        "fraction": fraction,
        "roof": level if binds else compute.name,
        "bound": "latency-bound" if fraction < 0.3 else f"on the {'bandwidth' if binds else 'compute'} roof",
        "cause": f"{fraction:.0%} of the roof",
        "next_move": "look elsewhere",
        "compute_hz": hz,
        "nvml_sm_hz": 1.98e9,
        "flags": None,
        **changes,
    }


def gemm(n: int, precision: str = "bf16", **changes: Any) -> dict[str, Any]:
    return point("gemm", n, precision, 2 * n**3, 3 * n * n * ITEMSIZE[precision], **changes)


def duty_sweep(sizes: tuple[int, ...] = (512, 600, 8192)) -> list[dict[str, Any]]:
    """BF16 products and a matrix-vector product, by the share of the time that the GPU works."""
    rows = []
    for duty, hz in HELD_HZ.items():
        power = 250 + 450 * duty
        told = {"clock_mode": "duty", "clock_asked": f"duty {duty}", "power_w": power}
        for n in sizes:
            rows.append(gemm(n, hz=hz, nvml_sm_hz=1.98e9 if duty < 0.8 else 1.0e9 + hz / 3, **told))
            rows[-1]["energy_per_launch_j"] = rows[-1]["time_s"] / duty * power
        rows.append(point("gemv", 4096, "bf16", 2 * 4096**2, 2 * 4096**2, hz=1.975e9, **told))
        rows[-1]["energy_per_launch_j"] = rows[-1]["time_s"] / duty * power
    return rows


def energy_sweep() -> list[dict[str, Any]]:
    """Intensities from a copy to a large product, at 0.55 pJ per FLOP, 110 pJ per byte and 110 W at rest."""
    rows = [point("copy", 2**28, "bf16", 0, 2.0**31)]
    rows += [point("intensity", 2**26, "bf16", k * 2**27, 2.0**28, **{"param.k": k}) for k in (1, 4, 16, 64, 128)]
    rows += [gemm(n, hz=1.5e9) for n in (1024, 2048, 4096, 8192)]
    for row in rows:
        joules = 0.55e-12 * row["flops"] + 110e-12 * row["traffic_bytes"] + 110 * row["time_s"]
        row |= {"energy_per_launch_j": joules, "power_w": joules / row["time_s"]}
    return rows


def fill_sweep() -> list[dict[str, Any]]:
    rows = []
    for fill, hz, power in (("zeros", 1.63e9, 510.0), ("uniform", 1.47e9, 698.0), ("normal", 1.42e9, 699.0)):
        for precision in ("bf16", "fp16"):
            row = gemm(8192, precision, hz=hz, fill=fill, power_w=power)
            rows.append(row | {"energy_per_launch_j": row["time_s"] * power})
    return rows


def tile_sweep(n: int = 2048) -> list[dict[str, Any]]:
    """The tiled FP32 product: bytes through L1 fall with the tile, DRAM's stay."""
    rows = []
    for tile, l2, best in ((8, 6.2e9, 0.05), (16, 3.7e9, 0.085), (32, 1.8e9, 0.1)):
        row = point("gemm_tiled", n, "fp32", 2 * n**3, 46e6, best=best, **{"param.tile": tile})
        rows.append(counted(row, dram=46e6, l2=l2, l1=8 * n**3 / tile, shared=8.0 * n**3))
    row = point("gemm", n, "fp32", 2 * n**3, 60e6, best=0.78)
    return [*rows, counted(row, dram=60e6, l2=0.4e9, l1=0.5e9, shared=2.1e9)]


def counted(row: dict[str, Any], **moved: float) -> dict[str, Any]:
    """The row with the bytes that counters saw at each level."""
    row |= {f"counted_{level}_bytes": value for level, value in moved.items()}
    return row | {f"intensity_{level}_flop_per_byte": row["flops"] / value for level, value in moved.items()}


def staircase() -> list[dict[str, Any]]:
    """A copy over working sets from 64 KB to 4 GB, hot and cold."""
    rows = []
    for power in range(16, 33):
        moved = 2.0**power
        for state in ("hot", "cold"):
            inside = 1 / (1 + (moved / 45e6) ** 4) if state == "hot" else 0.0
            rate = 1 / (inside / 7.1e12 + (1 - inside) / 4.1e12)
            time_s = moved / rate + LAUNCH_S
            row = point("copy", 2 ** (power - 3), "fp32", 0, moved, cache_state=state, time_s=time_s)
            rows.append(row | {"bytes_per_s": moved / time_s, "fraction": moved / time_s / 4.6e12})
    return rows


def size_sweep(precisions: tuple[str, ...] = ("bf16",), sizes: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """Products from 64 to 16384; the power limit takes clock from the largest."""
    rows = []
    for precision in precisions:
        for n in sizes or [round(64 * 2 ** (i / 2)) for i in range(17)]:
            hot = precision not in ("fp32", "fp64") and n > 3000
            hz = 1.62e9 - (0.19e9 * min(1.0, math.log2(n / 3000)) if hot else 0.0)
            throttled = "throttled" if hot and n > 4000 else None
            rows.append(gemm(n, precision, hz=hz, best=0.9, flags=throttled))
            rows[-1]["time_s"] *= 1 + 0.02 * math.sin(3 * n)
            rows[-1] |= {
                "flops_per_s": rows[-1]["flops"] / rows[-1]["time_s"],
                "time_p5_s": 0.99 * rows[-1]["time_s"],
                "time_p95_s": 1.02 * rows[-1]["time_s"],
            }
    return rows


def intensity_trace(precision: str = "fp32", softness: float = 3.0) -> list[dict[str, Any]]:
    """k multiply-adds per element: 1/t = (t_compute^p + t_memory^p)^(-1/p), so that the knee is rounded."""
    rows = []
    moved = 2.0**27 * ITEMSIZE[precision]
    for k in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
        flops = 2.0 * k * 2**26
        row = point("intensity", 2**26, precision, flops, moved, best=1.0, **{"param.k": k})
        roof = h200().compute(precision)
        assert roof
        parts = (flops / roof.at(1.98e9), moved / 4.596e12)
        time_s = sum(part**softness for part in parts) ** (1 / softness) / 0.97
        row |= {"time_s": time_s, "flops_per_s": flops / time_s, "bytes_per_s": moved / time_s}
        rows.append(row | {"fraction": flops / time_s / row["attainable_per_s"]})
    return rows


def thousand() -> list[dict[str, Any]]:
    """Several kernels, precisions, sizes and duties with counters and energies."""
    rows: list[dict[str, Any]] = []
    for i in range(1000):
        duty = list(HELD_HZ)[i % 6]
        n = round(64 * 2 ** ((i * 7 % 64) / 8))
        precision = ("bf16", "fp16", "fp32", "fp64", "tf32")[i // 6 % 5]
        told: dict[str, Any] = {"clock_mode": "duty", "clock_asked": f"duty {duty}", "power_w": 250 + 450 * duty}
        row = gemm(n, precision, hz=HELD_HZ[duty], best=0.3 + 0.6 * (i * 37 % 101) / 101, **told)
        row |= {"kernel": f"gemm_{i % 11}", "energy_per_launch_j": row["time_s"] / duty * told["power_w"]}
        moved = row["traffic_bytes"]
        rows.append(counted(row, dram=moved, l2=4 * moved, l1=16 * moved, shared=40 * moved))
    return rows
