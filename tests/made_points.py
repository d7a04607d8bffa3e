"""Made-up machines and points with plausible numbers, for tests of figures only."""

from __future__ import annotations

from typing import Any

from roofexp.config.schema import FiguresConfig, FigureStyle
from roofexp.records.machine import Machine, Roof, RoofSet

SCREEN = FiguresConfig(style=FigureStyle.screen, width_mm=240, font_pt=10, labels=12)
PAPER = FiguresConfig(style=FigureStyle.paper, width_mm=180, font_pt=8, labels=8)
COLUMN = FiguresConfig(style=FigureStyle.paper, width_mm=88, font_pt=8, labels=8)

DRAM, L3, L2, L1 = 40e9, 160e9, 400e9, 800e9
FP64, FP32, HELD_HZ = 200e9, 400e9, 3.2e9
LAUNCH_S = 4e-6
ITEMSIZE = {"fp64": 8, "fp32": 4}
WORK: dict[str, Any] = {  # FLOPs and elements moved
    "gemm": (lambda n: 2 * n**3, lambda n: 3 * n * n),
    "saxpy": (lambda n: 2 * n, lambda n: 3 * n),
    "gemv": (lambda n: 2 * n * n, lambda n: n * n + 2 * n),
    "softmax": (lambda n: 5 * n * 1024, lambda n: 2 * n * 1024),
    "silu_then_mul_in_two_passes_over_memory": (lambda n: 6 * n, lambda n: 5 * n),
    "copy": (lambda n: 0, lambda n: 2 * n),
}


def roofs(machine_id: str = "cafe", clock_mode: str = "observe", name: str = "Example CPU @ 3.20GHz") -> RoofSet:
    compute = {"kind": "compute", "clock_domain": "compute", "compute_hz": HELD_HZ}
    bandwidth = [("dram", DRAM), ("l3", L3), ("l2", L2), ("l1", L1)]
    return RoofSet(
        machine=Machine(
            machine_id=machine_id, device="cpu", name=name, units=4, nominal_hz=3.2e9, memory_bytes=16 * 2**30
        ),
        clock_mode=clock_mode,
        code_version="1",
        measured="2026-01-02T03:04:05",
        seconds=9.0,
        roofs=[
            Roof(name="fp64 fma", rate=FP64, precision="fp64", limit=FP64 / 0.97, **compute),
            Roof(name="fp32 fma", rate=FP32, precision="fp32", limit=FP32 / 0.97, **compute),
            Roof(
                name="fp32 mul add", rate=FP32 / 2, precision="fp32", ceiling_of="fp32 fma", cause="no FMA", **compute
            ),
            Roof(
                name="fp32 single",
                rate=FP32 / 4,
                precision="fp32",
                ceiling_of="fp32 fma",
                cause="one thread",
                **compute,
            ),
            *[Roof(name=level, kind="bandwidth", rate=rate, level=level) for level, rate in bandwidth],
            Roof(name="launch", kind="launch", rate=LAUNCH_S),
        ],
    )


def point(kernel: str, size: int, precision: str = "fp32", best: float = 0.9, **changes: Any) -> dict[str, Any]:
    """A row of points.csv: the kernel reaches ``best`` of its roof, less what a launch costs."""
    flops, moved = WORK[kernel][0](size), WORK[kernel][1](size) * ITEMSIZE[precision]
    peak = FP64 if precision == "fp64" else FP32
    time_s = max(flops / peak, moved / DRAM) / best + LAUNCH_S
    attainable = min(peak, flops / moved * DRAM) if flops else DRAM
    fraction = (flops or moved) / time_s / attainable
    binds = flops / moved < peak / DRAM
    roof = "dram" if binds else f"{precision} fma"
    row = {
        "job": 0,
        "kernel": kernel,
        "implementation": "numpy",
        "size": size,
        "precision": precision,
        "clock_mode": "observe",
        "cache_state": "cold",
        "fill": "normal",
        "device": "cpu",
        "machine_id": "cafe",
        "status": "ok",
        "time_s": time_s,
        "time_p5_s": 0.97 * time_s,
        "time_p95_s": 1.06 * time_s,
        "flops": flops,
        "traffic_bytes": moved,
        "traffic_level": "dram",
        "traffic_source": "modelled",
        "flops_per_s": flops / time_s if flops else None,
        "bytes_per_s": moved / time_s,
        "intensity_flop_per_byte": flops / moved,
        "attainable_per_s": attainable,
        "fraction": fraction,
        "roof": roof,
        "bound": "latency-bound" if fraction < 0.3 else f"on the {'bandwidth' if binds else 'compute'} roof",
        "cause": f"{fraction:.0%} of the {roof} roof",
        "next_move": "look elsewhere",
        "compute_hz": HELD_HZ,
        "flags": None,
    }
    return {**row, **changes}


def many(count: int) -> list[dict[str, Any]]:
    """So many points over all kernels, both precisions and a wide range of sizes, some of them flagged."""
    names = list(WORK)
    return [
        point(
            names[i % len(names)],
            2 ** (5 + (i * 7) % 9) + i,
            ("fp32", "fp64")[i // len(names) % 2],
            best=0.25 + 0.7 * ((i * 37) % 101) / 101,
            flags="noisy; drifting" if i % 11 == 3 else None,
        )
        for i in range(count)
    ]
