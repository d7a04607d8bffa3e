"""The same matrix products and vector additions through NVBench and through this program, cold, in one run.

Needs a GPU and NVBench's Python package (cuda-bench). Prints times side by side and the wall time of both:

    python -m tests.bench.bench_nvbench
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

GEMM_SIZES = [256, 1024, 4096, 8192]
VADD_SIZES = [1 << 16, 1 << 20, 1 << 24, 1 << 28]
Times = dict[str, float]


def launcher(name: str, size: int) -> Any:
    """The program's own kernel, loaded with random data: both measure the same code on the same data."""
    from roofexp.config.paths import conf_folder, kernels_folder
    from roofexp.devices.cuda.device import CudaDevice
    from roofexp.kernel.load import load_kernel

    device = CudaDevice(0, [kernels_folder()])
    kernel = load_kernel(name, [conf_folder()], "bf16" if name == "gemm" else "fp32", size, {}, "normal")
    return device.load(kernel, device.choose(kernel), 1)


def with_nvbench(json_file: str) -> None:
    import cuda.bench
    import cupy

    def benchmark(name: str) -> Any:
        def run(state: Any) -> None:
            loaded = launcher(name, state.get_int64("size"))

            def launch(given: Any) -> None:
                with cupy.cuda.ExternalStream(given.get_stream().addressof()):
                    loaded._launch()

            state.exec(launch)
            loaded.release()

        run.__name__ = name
        return run

    for name, sizes in (("gemm", GEMM_SIZES), ("vadd", VADD_SIZES)):
        cuda.bench.register(benchmark(name)).add_int64_axis("size", sizes)
    cuda.bench.run_all_benchmarks([sys.argv[0], "--json", json_file])


def with_roofexp(json_file: str, dirty: bool = False) -> None:
    """``dirty``: flush as NVBench does, by writing one L2 size: its lines are written back while the kernel runs."""
    import cupy
    import yaml

    from roofexp.config.paths import conf_folder, kernels_folder
    from roofexp.config.settings import TimingSettings
    from roofexp.devices.cuda.device import CudaDevice
    from roofexp.kernel.load import load_kernel
    from roofexp.measure.bench import Bench, Request

    settings = TimingSettings(**yaml.safe_load((conf_folder() / "timing/default.yaml").read_text()))
    device = CudaDevice(0, [kernels_folder()])
    bench = Bench(device)
    if dirty:
        buffer = cupy.zeros(device.machine().cache_bytes["l2"], cupy.uint8)
        device.stopwatch.flush = lambda: buffer.data.memset_async(0, buffer.nbytes)  # type: ignore[method-assign]
    times: Times = {}
    for name, sizes in (("gemm", GEMM_SIZES), ("vadd", VADD_SIZES)):
        for size in sizes:
            kernel = load_kernel(name, [conf_folder()], "bf16" if name == "gemm" else "fp32", size, {}, "normal")
            reply = bench.run(Request(kernel=kernel, timing=settings, cold=True, seed=1, clock={}))
            assert reply.timing, reply.reason
            times[f"{name} {size}"] = reply.timing.median_s
    Path(json_file).write_text(json.dumps(times))


def read_nvbench(file: Path) -> dict[str, Times]:
    """Cold GPU times of every state: mean and, where this version gives it, median."""
    found: dict[str, Times] = {}
    for benchmark in json.loads(file.read_text())["benchmarks"]:
        for state in benchmark["states"]:
            size = next(axis["value"] for axis in state["axis_values"] if axis["name"] == "size")
            values = {}
            for summary in state.get("summaries") or []:
                if summary["tag"].startswith("nv/cold/time/gpu/"):
                    value = next((d["value"] for d in summary["data"] if d["name"] == "value"), None)
                    values[summary["tag"].rpartition("/")[2]] = float(value) if value is not None else float("nan")
            found[f"{benchmark['name']} {size}"] = values
    return found


def difference(time_s: float, other_s: float) -> str:
    """In percent from 20 us on, in microseconds below."""
    return f"{time_s / other_s - 1:+.1%}" if other_s > 2e-5 else f"{(time_s - other_s) * 1e6:+.2f} us"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wall: Times = {}
        for mode in ("roofexp", "nvbench", "dirty"):
            start = time.perf_counter()
            command = [sys.executable, "-m", "tests.bench.bench_nvbench", mode, f"{folder}/{mode}.json"]
            done = subprocess.run(command, capture_output=True, text=True)
            wall[mode] = time.perf_counter() - start
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        ours = json.loads(Path(f"{folder}/roofexp.json").read_text())
        dirty = json.loads(Path(f"{folder}/dirty.json").read_text())
        theirs = read_nvbench(Path(f"{folder}/nvbench.json"))
    print(f"{'state':18}{'roofexp':>12}{'NVBench':>12}{'difference':>14}   with NVBench's flush")
    for state, time_s in ours.items():
        values = theirs[state]
        other_s = values.get("median", values.get("mean", float("nan")))
        both = f"{time_s * 1e6:9.2f} us{other_s * 1e6:9.2f} us{difference(time_s, other_s):>14}"
        print(f"{state:18}{both}{dirty[state] * 1e6:9.2f} us{difference(dirty[state], other_s):>12}")
    ratio = wall["roofexp"] / wall["nvbench"]
    print(f"wall time {wall['roofexp']:.1f} s and {wall['nvbench']:.1f} s: ratio {ratio:.2f} (at most 0.33)")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        modes = {"nvbench": with_nvbench, "roofexp": with_roofexp, "dirty": lambda file: with_roofexp(file, dirty=True)}
        modes[sys.argv[1]](sys.argv[2])
    else:
        main()
