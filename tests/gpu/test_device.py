"""The GPU as a device: times, clocks, descriptions, through the interface that the CPU has too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roofexp.config.paths import conf_folder, kernels_folder
from roofexp.kernel.load import load_kernel
from roofexp.measure.bench import Bench, Reply, Request
from roofexp.ncu.report import read_report
from tests.conftest import ROOT
from tests.test_timing import SETTINGS


@pytest.fixture(scope="module")
def bench() -> Bench:
    from roofexp.devices.cuda.device import CudaDevice

    return Bench(CudaDevice(0, [kernels_folder()]))


def run(bench: Bench, name: str, precision: str = "fp32", size: int | None = None, cold: bool = True) -> Reply:
    kernel = load_kernel(name, [conf_folder()], precision, size, {}, "normal")
    reply = bench.run(Request(kernel=kernel, timing=SETTINGS, cold=cold, seed=1, clock={"sample_s": 0.02}))
    assert reply.status == "ok", reply.reason
    return reply


def test_the_machine_is_described(bench: Bench) -> None:
    machine = bench.device.machine()
    assert machine.device == "cuda"
    assert machine.units
    assert machine.cache_bytes["l2"] > 1e6
    assert machine.limit("flop_per_cycle_fp32")


def test_cold_and_hot_agree_for_streams_past_the_cache(bench: Bench) -> None:
    cold, hot = (run(bench, "copy", size=1 << 28, cold=cold) for cold in (True, False))
    assert cold.timing
    assert hot.timing
    assert cold.timing.median_s == pytest.approx(hot.timing.median_s, rel=0.02)


def test_a_working_set_inside_the_cache_is_faster_hot(bench: Bench) -> None:
    cold, hot = (run(bench, "copy", size=1 << 20, cold=cold) for cold in (True, False))
    assert cold.timing
    assert hot.timing
    assert hot.timing.median_s < 0.8 * cold.timing.median_s


def test_the_clock_is_read_and_nvml_stands_beside_it(bench: Bench) -> None:
    reply = run(bench, "gemm", "bf16", 8192, cold=False)
    assert reply.clock
    assert reply.clock.compute_hz
    machine = bench.device.machine()
    assert 3e8 < reply.clock.compute_hz < 1.05 * (machine.nominal_hz or 4e9)
    assert reply.clock.readings.nvml_sm_hz
    assert len(reply.clock_rows) >= 2  # at the start and at the end, however short it is


def test_times_of_an_op_of_two_kernels_are_the_whole_op(bench: Bench) -> None:
    fused, two = (run(bench, name, "fp32", 1 << 26) for name in ("silu_mul", "silu_then_mul"))
    assert fused.timing
    assert two.timing
    assert 1.5 < two.timing.median_s / fused.timing.median_s < 1.9  # five accesses against three


def test_nothing_is_left_in_memory_between_points(bench: Bench) -> None:
    run(bench, "copy", size=1 << 26)
    before = bench.device.bytes_free()
    for _ in range(3):
        run(bench, "copy", size=1 << 28)
    assert bench.device.bytes_free() == pytest.approx(before, rel=0.01)


def test_the_cycle_counters_clock_is_ncus(tmp_path: Path) -> None:
    """For a long FFMA kernel, within 1 %: both read in one process, the kernel under ncu, the marks around it."""
    ncu = shutil.which("ncu")
    if ncu is None:
        pytest.skip("ncu is not on the PATH")
    script = tmp_path / "long.py"
    script.write_text(
        "from roofexp.kernel.load import load_kernel\n"
        "from roofexp.devices.cuda.device import CudaDevice\n"
        "from roofexp.config.paths import conf_folder, kernels_folder\n"
        "import msgspec\n"
        "device = CudaDevice(0, [kernels_folder()])\n"
        "kernel = load_kernel('roofs/cuda_fma', [conf_folder()], 'fp32', None, {}, 'normal')\n"
        "kernel = msgspec.structs.replace(kernel, shape={**kernel.shape, 'passes': 200000})\n"
        "loaded = device.load(kernel, 'cuda', 1)\n"
        "device.stopwatch.reset_clock()\n"
        "seconds = loaded.run_hot(1)\n"
        "print('marks', device.stopwatch.clock_hz(), seconds)\n"
    )
    command = [
        ncu,
        "--clock-control",
        "none",
        "--cache-control",
        "none",
        "--config-file",
        "off",
    ]
    command += ["--csv", "--page", "raw", "--print-units", "base", "--kernel-name", "fma_chains"]
    command += ["--metrics", "smsp__cycles_elapsed.avg.per_second", sys.executable, str(script)]
    paths = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200)
    assert "marks" in done.stdout, done.stdout[-1500:] + done.stderr[-1500:]
    marks = next(line for line in done.stdout.splitlines() if line.startswith("marks")).split()
    (launch,) = read_report(done.stdout, "ncu")
    ncu_hz = launch.values["smsp__cycles_elapsed.avg.per_second"]
    assert ncu_hz
    print(f"cycle counter {float(marks[1]) / 1e6:.1f} MHz, ncu {ncu_hz / 1e6:.1f} MHz")
    assert float(marks[1]) == pytest.approx(ncu_hz, rel=0.01)
