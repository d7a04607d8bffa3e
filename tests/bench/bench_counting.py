"""What counting costs: twelve points with one metric beside a bare ncu over the same twelve launches in one process.

make bench        (or: python -m pytest tests/bench/bench_counting.py -s, on a machine with a GPU and ncu)
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roofexp.config.paths import conf_folder, kernels_folder
from roofexp.counters.counting import CountRequest, count_sweep
from roofexp.kernel.load import load_kernel
from roofexp.ncu import find_ncu
from roofexp.ncu.session import child_environment
from tests.counted_sweep import make_sweep, points_of

METRIC = "dram__bytes_read.sum"
SIZES = [1 << power for power in range(16, 28)]
REPEATS = 5
ALLOWED = 1.3
MOST_S = 60.0  # for two points at any level
BARE = """
import sys
import cupy, numpy
from cupy.cuda import profiler
launch = cupy.RawModule(path=sys.argv[1]).get_function("saxpy")
random = cupy.random.default_rng(1)
for size, grid in (map(int, word.split(":")) for word in sys.argv[2:]):
    x, y = (random.standard_normal(size, dtype="float32") for _ in range(2))
    arguments = (x, y, numpy.float32(2), numpy.int64(size))
    launch((grid,), (256,), arguments)
    cupy.cuda.runtime.deviceSynchronize()
    profiler.start()
    launch((grid,), (256,), arguments)
    cupy.cuda.runtime.deviceSynchronize()
    profiler.stop()
"""


@pytest.fixture(scope="module")
def ncu() -> Path:
    from roofexp.devices.cuda.machine import why_no_cuda

    reason = why_no_cuda(0)
    found = None if reason else find_ncu(None)
    if found is None:
        pytest.skip(f"needs a GPU and ncu: {reason or 'ncu was not found'}")
    return found


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def seconds(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def bare_command(ncu: Path, folder: Path) -> list[str]:
    """The same machine code, grids and operands, without this program."""
    from roofexp.devices.cuda.code import compile_source, defines_of, launch_shape
    from roofexp.devices.cuda.machine import architecture

    words = []
    for size in SIZES:
        kernel = load_kernel("saxpy", [conf_folder()], "fp32", size, {}, "normal")
        words.append(f"{size}:{launch_shape(kernel, 132)[1][0]}")
    arch = f"sm_{architecture(0).replace('.', '')}"
    roots = [kernels_folder()]
    (folder / "saxpy.cubin").write_bytes(
        compile_source(kernels_folder() / "stream/saxpy.cu", arch, defines_of(kernel), roots, None)
    )
    (folder / "bare.py").write_text(BARE)
    options = ["--profile-from-start", "off", "--clock-control", "none", "--cache-control", "all", "--metrics", METRIC]
    options += ["--config-file", "off", "--target-processes", "application-only", "--csv", "--page", "raw"]
    program = [sys.executable, str(folder / "bare.py"), str(folder / "saxpy.cubin"), *words]
    return [str(ncu), *options, "--log-file", str(folder / "bare.csv"), *program]


def test_twelve_points_with_one_metric(ncu: Path, tmp_path: Path) -> None:
    from roofexp.devices.cuda.device import CudaDevice

    machine = CudaDevice(0, [kernels_folder()]).machine()
    folder = make_sweep(tmp_path / "sweep", *(["kernel=saxpy", f"size={size}"] for size in SIZES), machine=machine)
    command, environment = bare_command(ncu, tmp_path), child_environment("cuda")

    def bare() -> None:
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tmp_path / "bare.csv").read_text().count('"saxpy"') == len(SIZES)

    def ours() -> None:
        wish = CountRequest(override={"level": "basic", "metrics": [METRIC]}, again=True)
        assert count_sweep(folder, wish, say=lambda line: None) == len(SIZES)

    bare(), ours()  # compiled, cached, asked what ncu offers
    times = [(seconds(bare), seconds(ours)) for _ in range(REPEATS)]
    assert all(point.counted and point.counted.unavailable is None for point in points_of(folder))
    bare_s, ours_s = (statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"\ntwelve points with one metric: {ours_s:.2f} s; a bare ncu over the same launches in one process: "
        f"{bare_s:.2f} s; ratio {ours_s / bare_s:.2f} (at most {ALLOWED})"
    )
    assert ours_s / bare_s <= ALLOWED


def test_levels(ncu: Path, tmp_path: Path) -> None:
    from roofexp.devices.cuda.device import CudaDevice

    machine = CudaDevice(0, [kernels_folder()]).machine()
    jobs = [["kernel=saxpy", "size=67108864"], ["kernel=gemm", "size=4096", "precision=bf16"]]
    folder = make_sweep(tmp_path / "sweep", *jobs, machine=machine)
    passes: dict[str, list[int]] = {}
    for level in ("basic", "basic", "hierarchy", "diagnosis"):
        wish = CountRequest(override={"level": level}, again=True)
        took_s = seconds(lambda wish=wish: count_sweep(folder, wish, say=lambda line: None))
        counted = [point.counted for point in points_of(folder)]
        assert all(counts is not None and counts.unavailable is None for counts in counted), counted
        passes[level] = [counts.passes or 0 for counts in counted if counts]
        print(f"\n{level}: {took_s:.1f} s for two points (at most {MOST_S:.0f}), passes {passes[level]}")
        assert took_s <= MOST_S
    for point in range(len(jobs)):  # each level reads more than the one before it
        basic, hierarchy, diagnosis = (passes[level][point] for level in ("basic", "hierarchy", "diagnosis"))
        assert 0 < basic <= hierarchy <= diagnosis
        assert basic < diagnosis
