"""What the program itself costs per point, beside an empty Hydra job in the same run. Prints ratios.

make bench        (or: python -m pytest tests/bench/bench_overhead.py -s)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
JOBS = 40
EMPTY = """
import hydra
@hydra.main(version_base="1.3", config_path=None)
def main(config): pass
main()
"""


def seconds(command: list[str], folder: Path, cache: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)}
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return time.perf_counter() - start


def per_job(run, few: int, many: int) -> float:
    """Seconds per job, start and end of the program taken out by the difference of two lengths."""
    return (run(many) - run(few)) / (many - few)


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def roofexp_job_s(folder: Path, cache: Path, tracking: str) -> float:
    """Seconds per point outside the worker."""
    measuring: dict[int, float] = {}

    def run(jobs: int) -> float:
        words = ["kernel=vadd", f"size=range(1000,{1000 + jobs})", "timing=quick", "timing.budget_s=0.02", "-m"]
        words += ["timing.warmup_s=0.01", "roofs=none", f"tracking={tracking}", "device=cpu", f"name=b{jobs}{tracking}"]
        total = seconds([sys.executable, "-m", "roofexp", *words], folder, cache)
        files = folder.glob(f"outputs/b{jobs}{tracking}/*/*/point.json")
        measuring[jobs] = sum(json.loads(file.read_text())["measuring_s"] for file in files)
        return total - measuring[jobs]

    run(2)  # compiles
    return per_job(run, 4, 4 + JOBS)


def test_overhead_per_point(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "empty.py").write_text(EMPTY)

    def empty(jobs: int) -> float:
        return seconds([sys.executable, "empty.py", f"+n=range({jobs})", "-m"], tmp_path, cache)

    empty_s = per_job(empty, 4, 4 + JOBS)
    for tracking, allowed in (("none", 1.5), ("sqlite", 2.5)):
        ours_s = roofexp_job_s(tmp_path, cache, tracking)
        print(
            f"\n{ours_s * 1e3:.0f} ms per point outside the measuring (tracking={tracking}), an empty Hydra job takes "
            f"{empty_s * 1e3:.0f} ms: ratio {ours_s / empty_s:.2f} (at most {allowed})"
        )


def test_help(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "empty.py").write_text(EMPTY)

    def fastest(command: list[str]) -> float:
        return min(seconds(command, tmp_path, cache) for _ in range(7))

    ours_s = fastest([sys.executable, "-m", "roofexp", "--help"])
    empty_s = fastest([sys.executable, "empty.py", "--help"])
    print(
        f"\n--help: {ours_s:.2f} s, an empty Hydra program {empty_s:.2f} s: ratio {ours_s / empty_s:.2f}; at most 1.3"
    )
