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


@pytest.mark.timeout(3600)
def test_a_thousand_points(tmp_path: Path) -> None:
    words = ["kernel=vadd", f"size=range(1000,{1000 + POINTS})", "timing=quick", "timing.budget_s=0.005", "-m"]
    words += ["timing.warmup_s=0.002", "device=cpu"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    log = (tmp_path / "log").open("w")
    start = time.monotonic()
    running = subprocess.Popen([sys.executable, "-m", "roofexp", *words], cwd=tmp_path, env=environment, stdout=log)
    memory: list[tuple[int, float]] = []
    while running.poll() is None:
        time.sleep(2)
        done = len(list(tmp_path.glob("outputs/*/*/*/point.json")))
        try:
            family = [psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)]
            memory.append((done, sum(process.memory_info().rss for process in family) / 1e6))
        except psutil.NoSuchProcess:
            break
    total_s = time.monotonic() - start
    files = sorted(tmp_path.glob("outputs/*/*/*/point.json"), key=lambda file: int(file.parent.name))
    stamps = [file.stat().st_mtime for file in files]
    cost = [later - earlier for earlier, later in itertools.pairwise(stamps)]
    first, last = statistics.median(cost[50:250]), statistics.median(cost[-200:])
    records = [json.loads(file.read_text()) for file in files]
    assert running.returncode == 0
    assert sum(record["status"] == "ok" for record in records) == POINTS
    early = statistics.median(mb for done, mb in memory if 50 < done < 250)
    late = statistics.median(mb for done, mb in memory if POINTS - 200 < done < POINTS)
    print(
        f"\n{POINTS} points in {total_s:.0f} s; per point {first * 1e3:.0f} ms at the start, {last * 1e3:.0f} ms at "
        f"the end: ratio {last / first:.2f} (at most 1.2); memory {early:.0f} MB and {late:.0f} MB"
    )
