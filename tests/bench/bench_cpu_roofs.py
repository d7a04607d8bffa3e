"""The CPU's roofs against arithmetic, NumPy and a triad written by hand, all measured in one run. Prints ratios."""

from __future__ import annotations

import time
from pathlib import Path

import numpy
from numba import njit, prange

from roofexp.config.paths import conf_folder, kernels_folder
from roofexp.config.settings import TimingSettings
from roofexp.devices.cpu.device import CpuDevice
from roofexp.kernel.load import load_kernel
from roofexp.measure.bench import Bench, Request
from roofexp.roofs.store import RoofStore

SETTINGS = TimingSettings(
    name="bench", target=0.005, budget_s=2.0, warmup_s=0.5, steady=0.02, batch_s=1e-3, min_samples=10, max_samples=2000,
    drift=0.03, noise=0.10, timer_floors=3.0, busy=0.1, timeout_s=120.0,
)  # fmt: skip


@njit(parallel=True, fastmath=True)
def triad_by_hand(x, y, z, a):
    for i in prange(x.size):
        z[i] = x[i] + a * y[i]


def test_roofs(tmp_path: Path) -> None:
    import yaml

    bench = Bench(CpuDevice(None, [kernels_folder()]))
    config = yaml.safe_load((conf_folder() / "roofs/measure.yaml").read_text())
    machine = bench.device.machine()
    store = RoofStore(tmp_path, machine, "observe", config, [conf_folder()])
    roofs = None
    for precision in ("fp64", "fp32"):
        roofs = store.ensure(precision, SETTINGS, bench.run, lambda line: None)
    assert roofs
    for precision in ("fp64", "fp32"):
        roof = roofs.compute(precision)
        assert roof
        share = f"{roof.rate / roof.limit:.3f} of cores x FLOP per cycle x clock" if roof.limit else "limit unknown"
        kernel = load_kernel("gemm", [conf_folder()], precision, 4096, {}, "normal")
        reply = bench.run(Request(kernel=kernel, timing=SETTINGS, cold=False, seed=1, clock={}))
        assert reply.timing
        gemm = kernel.work.flops / reply.timing.median_s
        clock = (reply.clock.compute_hz if reply.clock else None) or roof.compute_hz
        at = f"{(roof.compute_hz or 0) / 1e9:.3f} GHz"
        print(
            f"\n{precision} fma {roof.rate / 1e9:.1f} GFLOP/s at {at} ({share}); "
            f"NumPy's gemm at 4096 {gemm / 1e9:.1f} GFLOP/s = {gemm / roof.at(clock):.3f} of the roof"
        )
    dram = roofs.bandwidth("dram")
    assert dram
    by_hand = hand_triad_bytes_per_s()
    mixes = ", ".join(f"{mix} {rate / 1e9:.2f}" for mix, rate in dram.mixes.items())
    print(
        f"\ndram {dram.rate / 1e9:.2f} GB/s ({mixes}); "
        f"triad by hand {by_hand / 1e9:.2f} GB/s: ratio {dram.rate / by_hand:.3f} (at least 0.98)"
    )


def hand_triad_bytes_per_s() -> float:
    count = 16_777_216
    x, y, z = (numpy.random.default_rng(i).standard_normal(count) for i in range(3))
    triad_by_hand(x, y, z, 0.5)
    times = []
    for _ in range(40):
        start = time.perf_counter()
        triad_by_hand(x, y, z, 0.5)
        times.append(time.perf_counter() - start)
    return 3 * 8 * count / sorted(times)[2]
