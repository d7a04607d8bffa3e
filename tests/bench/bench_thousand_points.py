"""A sweep of a thousand tiny points: cost per point at its end against its start, and memory. Prints both."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parent.parent.parent
POINTS = 1000
START, END = (50, 250), (POINTS - 200, POINTS)

Sample = tuple[int, float, float]  # points done, processor time of the program's own process, memory of all in MB


def watch(process: subprocess.Popen[bytes], folder: Path) -> list[Sample]:
    samples: list[Sample] = []
    own = psutil.Process(process.pid)
    while process.poll() is None:
        time.sleep(1)
        done = len(list(folder.glob("outputs/vadd/*/*/point.json")))
        try:
            used = own.cpu_times()
            megabytes = sum(one.memory_info().rss for one in [own, *own.children(recursive=True)]) / 1e6
        except psutil.NoSuchProcess:
            break
        samples.append((done, used.user + used.system, megabytes))
    return samples


def processor_s(samples: list[Sample], span: tuple[int, int]) -> float:
    """Processor time per point; unlike the time that passed, other programs hardly change it."""
    inside = [(done, used) for done, used, _ in samples if span[0] < done < span[1]]
    (first, before), (last, after) = inside[0], inside[-1]
    return (after - before) / (last - first)


@pytest.mark.timeout(3600)
def test_a_thousand_points(tmp_path: Path) -> None:
    words = ["kernel=vadd", f"size=range(1000,{1000 + POINTS})", "timing=quick", "timing.budget_s=0.005", "-m"]
    words += ["timing.warmup_s=0.002", "cache=hot", "device=cpu"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    log = (tmp_path / "log").open("w")
    start = time.monotonic()
    running = subprocess.Popen([sys.executable, "-m", "roofexp", *words], cwd=tmp_path, env=environment, stdout=log)
    samples = watch(running, tmp_path)
    total_s = time.monotonic() - start
    files = sorted(tmp_path.glob("outputs/vadd/*/*/point.json"), key=lambda file: int(file.parent.name))
    stamps = [file.stat().st_mtime for file in files]
    cost = [later - earlier for earlier, later in itertools.pairwise(stamps)]
    first, last = (statistics.median(cost[slice(*span)]) for span in (START, END))
    records = [json.loads(file.read_text()) for file in files]
    assert running.returncode == 0
    assert sum(record["status"] == "ok" for record in records) == POINTS
    early, late = (
        statistics.median(megabytes for done, _, megabytes in samples if span[0] < done < span[1])
        for span in (START, END)
    )
    early_s, late_s = processor_s(samples, START), processor_s(samples, END)
    print(
        f"\n{POINTS} points in {total_s:.0f} s; per point {first * 1e3:.0f} ms at the start, {last * 1e3:.0f} ms at "
        f"the end: ratio {last / first:.2f} (at most 1.2); of that the program's own processor time "
        f"{early_s * 1e3:.1f} and {late_s * 1e3:.1f} ms: ratio {late_s / early_s:.2f}; memory {early:.0f} MB and "
        f"{late:.0f} MB"
    )
