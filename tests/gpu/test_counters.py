"""Counters of kernels whose work is known, counted through the program's own session of ncu.

ROOFEXP_CAPTURE=FILE keeps what was counted: it becomes tests/data/ncu/h200_counted_points.csv.gz.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from roofexp.config.paths import kernels_folder
from roofexp.counters.counting import CountRequest, count_sweep
from roofexp.ncu import find_ncu
from roofexp.records.machine import Machine
from roofexp.run.summary import counting_lines
from tests.counted_sweep import make_sweep, points_of
from tests.counting_facts import CASES, DIAGNOSED, FACTS, Points, gather
from tests.gpu.test_faults import SOURCE, YAML


@pytest.fixture(scope="module", autouse=True)
def ncu() -> Path:
    found = find_ncu(None)
    if found is None:
        pytest.skip("needs Nsight Compute: ncu was not found")
    return found


@pytest.fixture(scope="module")
def machine() -> Machine:
    from roofexp.devices.cuda.device import CudaDevice

    device = CudaDevice(0, [kernels_folder()])
    machine = device.machine()
    device.close()
    return machine


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ.setdefault("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def count(folder: Path, level: str, config_folders: Sequence[Path] = (), **override: object) -> float:
    """Seconds."""
    start = time.monotonic()
    wish = CountRequest(override={"level": level, **override}, again=True, config_folders=list(config_folders))
    count_sweep(folder, wish)
    print(f"\n{chr(10).join(counting_lines(points_of(folder)))}")
    return time.monotonic() - start


@pytest.fixture(scope="module")
def counted_points(tmp_path_factory: pytest.TempPathFactory, machine: Machine, cache: None) -> Points:
    folder = tmp_path_factory.mktemp("counted") / "sweep"
    make_sweep(folder, *CASES.values(), machine=machine)
    folders = {case: folder / str(number) for number, case in enumerate(CASES)}
    count(folder, "hierarchy")
    diagnosed = CountRequest(override={"level": "diagnosis"}, again=True)
    count_sweep(folder, diagnosed, folders=[folders[case] for case in DIAGNOSED])
    if os.environ.get("ROOFEXP_CAPTURE"):
        gather(folders, Path(os.environ["ROOFEXP_CAPTURE"]))
    points = dict(zip(CASES, points_of(folder), strict=True))
    for point in points.values():
        if point.counted and "ERR_NVGPUCTRPERM" in (point.counted.unavailable or ""):
            pytest.skip(str(point.counted.unavailable))
    for case, point in points.items():
        print(f"{case}: {point.counted}")
    return points


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_fact(counted_points: Points, fact: Callable[[Points], None]) -> None:
    fact(counted_points)


def test_levels_cost_more_passes(tmp_path: Path, machine: Machine, cache: None) -> None:
    folder = make_sweep(tmp_path / "sweep", CASES["saxpy"], CASES["gemm bf16"], machine=machine)
    passes = []
    for level in ("basic", "hierarchy", "diagnosis"):
        count(folder, level)
        counted = [point.counted for point in points_of(folder)]
        passes.append(max(c.passes for c in counted if c and c.passes))
    print(f"passes by level: {passes}")
    assert passes == sorted(passes)


def test_a_kernel_that_faults_costs_no_other(tmp_path: Path, machine: Machine, cache: None) -> None:
    (tmp_path / "mine/kernel").mkdir(parents=True)
    (tmp_path / "mine/kernels").mkdir()
    (tmp_path / "mine/kernel/half.yaml").write_text(YAML)
    (tmp_path / "mine/kernels/half.cu").write_text(SOURCE)
    jobs = [["kernel=half", f"size={size}"] for size in (1003, 1004, 1005, 1006, 1009, 1010)]
    folder = make_sweep(tmp_path / "sweep", *jobs, machine=machine, folders=[tmp_path / "mine"])
    count(folder, "basic", [tmp_path / "mine"], timeout_s=10)
    reasons = {point.size: point.counted.unavailable for point in points_of(folder)}
    print(reasons)
    assert {size for size, reason in reasons.items() if reason} == {1005, 1009}
    assert reasons[1009].startswith("timeout: ")
    assert all(point.counted.flops == point.size for point in points_of(folder) if not reasons[point.size])


def test_a_hundred_points_keep_memory_and_files_bounded(tmp_path: Path, machine: Machine, cache: None) -> None:
    peaks, seconds = {}, {}
    for number in (20, 100):
        jobs = [["kernel=saxpy", f"size={(1 << 22) + 4 * step}"] for step in range(number)]
        folder = make_sweep(tmp_path / str(number), *jobs, machine=machine)
        with Memory() as memory:
            seconds[number] = count(folder, "basic")
        peaks[number] = memory.peak_bytes
        assert all(point.counted.flops == 2 * point.size for point in points_of(folder))
        files = [file for file in folder.rglob("*") if file.is_file()]
        assert not [file for file in files if file.suffix == ".ncu-rep"]
        assert sum(file.stat().st_size for file in files) < 30_000 * number
    print(f"peak memory of ncu and its child: {peaks}; seconds: {seconds}")
    assert peaks[100] < peaks[20] + 300e6


class Memory:
    """The largest resident memory of this process's descendants."""

    def __enter__(self) -> Memory:
        self.peak_bytes, self._ended = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            total = 0
            for child in psutil.Process().children(recursive=True):
                try:
                    total += child.memory_info().rss
                except psutil.Error:
                    continue
            self.peak_bytes = max(self.peak_bytes, total)


def test_a_kept_report_is_read_too(tmp_path: Path, machine: Machine, cache: None) -> None:
    folder = make_sweep(tmp_path / "sweep", CASES["saxpy"], machine=machine)
    count(folder, "basic", keep_reports=True)
    assert points_of(folder)[0].counted.flops == 2 * 67108864
    assert len(list(folder.glob("*.ncu-rep"))) == 1


def test_a_sweep_is_counted_by_itself_in_one_session(program, sweep_folder) -> None:
    """The defaults: two cache states are two sessions, each said once; the event time stays."""
    words = ["kernel=saxpy", "size=1048576,67108864", "cache=cold,hot", "timing=quick", "roofs=none", "tracking=none"]
    done = program(*words, "-m", "device=cuda", bare=True)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    assert done.stdout.count("under ncu") == 2
    assert "counters 4 of 4 points: basic, " in done.stdout
    for file in sweep_folder().glob("*/point.json"):
        record = json.loads(file.read_text())
        assert record["counted"]["flops"] == 2 * record["size"]
        assert record["counted"]["time_s"] != record["timing"]["median_s"]
        if record["traffic"]["level"] == "dram":
            assert record["traffic"]["source"] == "counted"


def test_jobs_count_themselves_where_asked(program, sweep_folder) -> None:
    words = ["kernel=saxpy", "size=1048576,2097152", "counters.phase=job", "timing=quick", "roofs=none"]
    done = program(*words, "-m", "device=cuda", "tracking=none", bare=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("under ncu") == 2
    assert "counters 2 of 2 points: basic, " in done.stdout
