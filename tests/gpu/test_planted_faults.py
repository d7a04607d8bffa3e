"""``experiment=faults`` on a GPU: the planted cause is the verdict, twins are healthy, none is called by its opposite.

ROOFEXP_FAULTS=FOLDER judges a folder that the experiment left instead of running it, without a GPU's time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from roofexp.records.archive import read_sweep_points
from roofexp.records.point import Point
from tests.kernel_cases import ROOT

MOST_WRONG = 1  # of the planted faults


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    if folder := os.environ.get("ROOFEXP_FAULTS"):
        return read_sweep_points(Path(folder))
    outputs = tmp_path_factory.mktemp("outputs")
    command = [sys.executable, "-m", "roofexp", "experiment=faults", "tracking=none", f"outputs={outputs}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    print(done.stdout[-12_000:], done.stderr[-2_000:])
    return read_sweep_points(next((outputs / "faults").iterdir()))


def test_every_kernel_gives_its_result_and_is_counted(points: list[Point]) -> None:
    assert points
    assert [f"{point.kernel}: {point.reason}" for point in points if point.status != "ok"] == []
    uncounted = [p.kernel for p in points if p.counted is None or p.counted.unavailable or not p.counted.facts]
    if len(uncounted) == len(points):
        pytest.skip("no counters here")
    assert uncounted == []


def test_the_planted_cause_is_the_verdict(points: list[Point]) -> None:
    planted = [point for point in points if point.expect != "healthy"]
    wrong = [f"{p.kernel}: {p.expect} expected, {p.diagnosis and p.diagnosis.verdict.name} found" for p in planted
             if p.as_expected is not True]  # fmt: skip
    assert len(wrong) <= MOST_WRONG, wrong


def test_the_twins_are_healthy(points: list[Point]) -> None:
    twins = [point for point in points if point.expect == "healthy"]
    wrong = [f"{p.kernel}: {p.diagnosis and p.diagnosis.verdict.name}" for p in twins if p.as_expected is not True]
    assert wrong == []


def test_no_fault_is_called_healthy(points: list[Point]) -> None:
    planted = [point for point in points if point.expect != "healthy" and point.diagnosis]
    assert [point.kernel for point in planted if point.diagnosis and point.diagnosis.verdict.healthy] == []
