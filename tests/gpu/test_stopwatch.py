"""The time by events against the duration that the profiler gives, from two to a hundred microseconds."""

from __future__ import annotations

import csv
import io
import statistics
import subprocess
import sys

import pytest

from roofexp.devices.cuda.device import CudaDevice
from roofexp.kernel.load import load_kernel
from roofexp.ncu import find_ncu
from tests.conftest import ROOT

LENGTHS_US = (0, 2, 5, 10, 20, 50, 100)
SPIN = r"""
extern "C" __global__ void spin(long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    const long long from = clock64();
    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (clock64() - from < nanoseconds * 2);
}
"""
CHILD = f"""
import cupy, numpy
spin = cupy.RawKernel({SPIN!r}, "spin")
for length in {LENGTHS_US}:
    for _ in range(5):
        spin((132,), (128,), (numpy.int64(1000 * length),))
cupy.cuda.runtime.deviceSynchronize()
"""
WITHIN_US = 0.2


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    return CudaDevice(0, [ROOT / "kernels"])


def profiled_us() -> dict[int, float]:
    ncu = find_ncu(None)
    assert ncu, "ncu is needed"
    done = subprocess.run(
        [str(ncu), "--csv", "--metrics", "gpu__time_duration.sum", "--clock-control", "none", "--print-units",
         "base", "-k", "spin", sys.executable, "-c", CHILD],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    lines = done.stdout[done.stdout.index('"ID"') :]
    times = [float(row["Metric Value"].replace(",", "")) / 1000 for row in csv.DictReader(io.StringIO(lines))]
    assert len(times) == 5 * len(LENGTHS_US), done.stdout + done.stderr
    return {length: statistics.median(times[5 * i : 5 * i + 5]) for i, length in enumerate(LENGTHS_US)}


def test_events_and_the_profiler_agree(device: CudaDevice) -> None:
    import cupy
    import numpy

    device.timer_floor_s(True)  # calibrates
    device.wake()
    watch, spin = device.stopwatch, cupy.RawKernel(SPIN, "spin")
    profiled = profiled_us()
    apart = {}
    for length, ncu_us in profiled.items():

        def launch(length: int = length) -> None:
            spin((132,), (128,), (numpy.int64(1000 * length),))

        for state, flush in (("cold", True), ("hot", False)):
            times = sorted(1e6 * watch.seconds(launch, flush=flush) for _ in range(60))
            event_us = statistics.median(times)
            apart[length, state] = event_us - ncu_us
            print(
                f"{length:4d} us {state}: events {event_us:.2f}, ncu {ncu_us:.2f}, "
                f"p5 {times[3]:.2f}, p95 {times[-4]:.2f}"
            )
    print(f"the events' own: {1e6 * watch.own_s:.2f} us")
    assert all(abs(difference) <= WITHIN_US for (length, _), difference in apart.items() if length), apart


@pytest.mark.parametrize("precision", ["fp64", "fp32", "tf32", "fp16", "bf16"])
def test_cublas_is_captured_into_graphs(precision: str, device: CudaDevice) -> None:
    kernel = load_kernel("gemm", [ROOT / "conf"], precision, 512, {}, "normal")
    loaded = device.load(kernel, device.choose(kernel), 1)
    loaded.check()
    loaded.run_hot(100)
    assert "graph" in loaded.method
    assert not loaded.flags
