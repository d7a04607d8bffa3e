"""However a sweep is stopped: what was measured is in its table, its runs are closed, one line says how to go on."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from roofexp.run import finish as finishing
from roofexp.run.finish import finish
from roofexp.run.process import PROCESS
from roofexp.run.progress import Run
from tests.conftest import QUICK, python_path

STORE = "tracking=sqlite"


def started(tmp_path: Path, cache_folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "roofexp", *QUICK, "tracking=sqlite", *arguments], cwd=tmp_path, text=True,
        env={**os.environ, "PYTHONPATH": python_path(), "XDG_CACHE_HOME": str(cache_folder)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def statuses(database: Path) -> list[str]:
    return [
        row[0] for row in sqlite3.connect(database).execute("select status from runs where lifecycle_stage = 'active'")
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_sweep_keeps_its_points_and_closes_its_runs(tmp_path: Path, cache_folder, number: int) -> None:
    sizes = ",".join(map(str, range(1000, 1400)))
    process = started(tmp_path, cache_folder, "kernel=saxpy", f"size={sizes}", "-m")
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("outputs/*/*/*/point.json"))) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "continue with resume=outputs/saxpy/" in stderr
    assert "Traceback" not in stdout + stderr
    folder = next(tmp_path.glob("outputs/*/*"))
    records = len(list(folder.glob("*/point.json")))
    assert len((folder / "points.csv").read_text().splitlines()) == 1 + records
    assert (folder / "report.html").is_file()
    assert "RUNNING" not in statuses(tmp_path / "outputs/mlflow.db")
    assert not (folder / ".lock").exists()


@pytest.fixture
def as_it_was(monkeypatch: pytest.MonkeyPatch):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(PROCESS.stop, "asked", False)
    PROCESS.stop.listen()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupted(times: int) -> Callable[..., None]:
    def interrupt(*arguments: object) -> None:
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            sum(range(1000))

    return interrupt


class Tracker:
    tracker = None

    def __init__(self) -> None:
        self.calls: list[str] = []

    def finish_sweep(self, folder: Path, status: str | None) -> bool:
        self.calls.append(f"finish {status}")
        return False

    def close_leftovers(self) -> None:
        self.calls.append("close")


def test_one_signal_while_figures_are_made_is_noted(tmp_path, monkeypatch, capsys, as_it_was) -> None:
    monkeypatch.setattr(finishing, "draw", lambda folder, points: interrupted(1)() or [])
    run = Run(tmp_path, {}, 1, tracker := Tracker())
    finish(run)
    assert PROCESS.stop.asked
    assert tracker.calls == ["finish None"]
    assert "press Ctrl-C again" in capsys.readouterr().err


def test_two_leave_out_what_can_be_made_later(tmp_path, monkeypatch, capsys, as_it_was) -> None:
    monkeypatch.setattr(finishing, "draw", lambda folder, points: interrupted(2)() or [])
    run = Run(tmp_path, {}, 1, tracker := Tracker())
    finish(run)
    assert tracker.calls == ["finish None"]
    assert "python -m roofexp.report makes figures and page later" in capsys.readouterr().err
    assert (tmp_path / "points.csv").is_file()


def test_two_while_the_table_is_written_close_the_runs(tmp_path, monkeypatch, capsys, as_it_was) -> None:
    monkeypatch.setattr(finishing, "collect", interrupted(2))
    run = Run(tmp_path, {}, 1, tracker := Tracker())
    assert finish(run) == 130
    assert tracker.calls == ["close"]
    assert "make the rest with resume=" in capsys.readouterr().err


def test_counting_can_be_interrupted(tmp_path, monkeypatch, as_it_was) -> None:
    monkeypatch.setattr(finishing, "count_points", lambda run: interrupted(1)() or True)
    run = Run(tmp_path, {}, 1, tracker := Tracker())
    assert finish(run) == 130
    assert tracker.calls == ["close"]


def test_a_mirror_that_failed_names_no_address(tmp_path, monkeypatch, capsys, as_it_was) -> None:
    class Failed(Tracker):
        class tracker:  # noqa: N801
            ui_command = "mlflow ui"
            pages = ("http://localhost:5000",)

    finish(Run(tmp_path, {}, 1, Failed()))
    assert "mlflow ui" not in capsys.readouterr().out


def test_a_copied_store_is_refused_and_the_original_is_as_it_was(program, tmp_path: Path) -> None:
    import shutil

    assert program("kernel=saxpy", "size=1000", STORE).returncode == 0
    before = sorted(map(str, (tmp_path / "outputs/artifacts").rglob("*")))
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(tmp_path / "outputs", tmp_path / "elsewhere/outputs")
    folders = sorted((tmp_path / "elsewhere/outputs/saxpy").iterdir())
    copied = program("kernel=saxpy", "size=2000", STORE, "outputs=elsewhere/outputs")
    assert copied.returncode == 2
    assert "is a copy" in copied.stderr
    assert "tracking.experiment=" in copied.stderr
    assert len(copied.stderr.splitlines()) == 1
    assert sorted((tmp_path / "elsewhere/outputs/saxpy").iterdir()) == folders
    other = program("kernel=saxpy", "size=2000", STORE, "outputs=elsewhere/outputs", "tracking.experiment=mine")
    assert other.returncode == 0, other.stderr
    assert sorted(map(str, (tmp_path / "outputs/artifacts").rglob("*"))) == before
