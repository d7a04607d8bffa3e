"""A library's product with cold caches beside one with hot ones: what the flush leaves running must not slow it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from roofexp.devices.environment import worker_environment
from tests.conftest import ROOT

MOST = 6.0  # cold over hot: of 256 x 256 the caches explain about 2; threads that stand in line, 20 and more
CODE = f"""
from pathlib import Path
from statistics import median
from roofexp.devices.cpu.device import CpuDevice
from roofexp.kernel.load import load_kernel
device = CpuDevice(2, [Path({str(ROOT / "kernels")!r})])
kernel = load_kernel("gemm", [Path({str(ROOT / "conf")!r})], "fp32", 256, {{}}, "normal")
loaded = device.load(kernel, "numpy", 1)
loaded.check()
print(median(loaded.run_cold() for _ in range(25)) / median(loaded.run_hot(1) for _ in range(25)))
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core nobody waits for a thread")
def test_a_cold_product_of_a_library() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], env=worker_environment("cpu:2"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ratio = float(done.stdout)
    print(f"\ncold over hot, gemm 256 fp32 on two cores: {ratio:.1f} (at most {MOST:g})")
    assert ratio <= MOST
