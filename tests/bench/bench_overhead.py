"""What the program itself costs per point, and its help, beside an empty Hydra program in the same run.

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
FEW, JOBS, ROUNDS = 4, 40, 3
MOST_OF_AN_EMPTY_JOB = {"none": 1.5, "sqlite": 2.5}  # by tracking store
MOST_OF_AN_EMPTY_HELP = 0.2
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


def per_job(few_s: list[float], many_s: list[float]) -> float:
    """Seconds per job from repeated sweeps of FEW jobs and of JOBS more: start and end of the program drop out, and
    so does what other programs took, in the fastest of each."""
    return (min(many_s) - min(few_s)) / JOBS


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def own_s(folder: Path, cache: Path, jobs: int, name: str, tracking: str) -> float:
    """Seconds of a sweep outside the worker."""
    words = ["kernel=vadd", f"size=range(1000,{1000 + jobs})", "timing=quick", "timing.budget_s=0.02", "-m"]
    words += ["timing.warmup_s=0.01", "roofs=none", f"tracking={tracking}", "device=cpu", f"name={name}"]
    total_s = seconds([sys.executable, "-m", "roofexp", *words], folder, cache)
    files = folder.glob(f"outputs/{name}/*/*/point.json")
    return total_s - sum(json.loads(file.read_text())["measuring_s"] for file in files)


@pytest.mark.timeout(1800)
def test_overhead_per_point(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "empty.py").write_text(EMPTY)
    own_s(tmp_path, cache, 2, "compiles", "sqlite")
    spent: dict[tuple[str, int], list[float]] = {}
    for turn in range(ROUNDS):  # in turn, so that what disturbs one disturbs all
        for jobs in (FEW, FEW + JOBS):
            empty = [sys.executable, "empty.py", f"+n=range({jobs})", "-m"]
            spent.setdefault(("empty", jobs), []).append(seconds(empty, tmp_path, cache))
            for tracking in ("none", "sqlite"):
                own = own_s(tmp_path, cache, jobs, f"{tracking}{jobs}_{turn}", tracking)
                spent.setdefault((tracking, jobs), []).append(own)
    cost_s = {what: per_job(spent[what, FEW], spent[what, FEW + JOBS]) for what in ("empty", "none", "sqlite")}
    ratios = {tracking: cost_s[tracking] / cost_s["empty"] for tracking in MOST_OF_AN_EMPTY_JOB}
    for tracking, most in MOST_OF_AN_EMPTY_JOB.items():
        print(
            f"\n{cost_s[tracking] * 1e3:.0f} ms per point outside the measuring (tracking={tracking}), an empty Hydra "
            f"job takes {cost_s['empty'] * 1e3:.0f} ms: ratio {ratios[tracking]:.2f} (at most {most})"
        )
    assert {tracking for tracking, most in MOST_OF_AN_EMPTY_JOB.items() if ratios[tracking] > most} == set(), ratios


def test_help(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "empty.py").write_text(EMPTY)

    def fastest(command: list[str]) -> float:
        return min(seconds(command, tmp_path, cache) for _ in range(7))

    ours_s = fastest([sys.executable, "-m", "roofexp", "--help"])
    empty_s = fastest([sys.executable, "empty.py", "--help"])
    ratio = ours_s / empty_s
    print(
        f"\n--help: {ours_s:.2f} s, an empty Hydra program {empty_s:.2f} s: ratio {ratio:.2f} "
        f"(at most {MOST_OF_AN_EMPTY_HELP})"
    )
    assert ratio <= MOST_OF_AN_EMPTY_HELP
