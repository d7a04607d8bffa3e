"""One measurement at a time on a device: who is second waits, says for whom, and is measured as if alone."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from roofexp.devices import device_lock
from roofexp.devices.device_lock import FOLDER, DeviceLock, core_names, gpu_names, lock_folder
from roofexp.measure.device_use import DeviceUse
from roofexp.records.point import Point, read_point
from tests.conftest import QUICK, python_path

HOLD = """
import sys, time
from pathlib import Path
from roofexp.devices.device_lock import DeviceLock
lock = DeviceLock(sys.argv[2:], Path(sys.argv[1]))
lock.acquire(print)
print("held", flush=True)
time.sleep(60)
"""


@contextmanager
def held_elsewhere(folder: Path, *names: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": python_path()}
    words = [sys.executable, "-c", HOLD, str(folder), *names]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_who_waits_is_told_for_whom_and_how_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_lock, "SAY_AGAIN_S", 0.6)
    said: list[str] = []
    with held_elsewhere(tmp_path, "core-0") as holder:

        def say(line: str) -> None:
            said.append(line)
            if len(said) == 3:
                holder.kill()

        lock = DeviceLock(["core-0"], tmp_path)
        assert not lock.acquire_at_once()
        waited_s = lock.acquire(say)
    assert waited_s >= 1.2
    assert f"core 0 is in use by process {holder.pid} (-c {tmp_path} core-0)" in said[0]
    assert [line.split(" for ")[0] for line in said[1:]] == ["device: waited 1 s", "device: waited 1 s"]
    lock.release()


def test_sets_of_cores_that_overlap_exclude_each_other_and_others_do_not(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path, "core-1", "core-2"):
        assert not DeviceLock(["core-0", "core-1"], tmp_path).acquire_at_once()
        other = DeviceLock(["core-0", "core-3"], tmp_path)  # core 0 was let go again
        assert other.acquire_at_once()
        other.release()


def test_a_killed_holder_leaves_nothing_behind(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path, "GPU-1") as holder:
        holder.kill()
        holder.wait()
        lock = DeviceLock(["GPU-1"], tmp_path)
        assert lock.acquire(pytest.fail) == 0.0
        lock.release()


def test_what_this_process_holds_it_takes_again_and_lets_go_once_for_each(tmp_path: Path) -> None:
    first, second = DeviceLock(["core-0"], tmp_path), DeviceLock(["core-0"], tmp_path)
    assert first.acquire_at_once()
    assert second.acquire_at_once()
    first.release()
    assert (tmp_path / "core-0.holder").read_bytes()
    second.release()
    assert (tmp_path / "core-0.holder").read_bytes() == b""


def test_other_users_may_take_the_locks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER)
    monkeypatch.setattr(device_lock, "SHARED", tmp_path / "shared")
    before = os.umask(0o077)
    try:
        lock = DeviceLock(["core-0"])
        lock.acquire(pytest.fail)
    finally:
        os.umask(before)
    shared = tmp_path / "shared"
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777
    assert {stat.S_IMODE(file.stat().st_mode) for file in shared.iterdir()} == {0o666}
    assert {file.name for file in shared.iterdir()} == {"core-0.lock", "core-0.holder"}
    lock.release()


def test_where_no_folder_can_be_shared_the_users_own_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(device_lock, "SHARED", tmp_path / "missing" / "shared")
    assert lock_folder() == tmp_path / "roofexp/locks"
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    monkeypatch.setattr(device_lock, "SHARED", tmp_path / "link")
    assert lock_folder() == tmp_path / "roofexp/locks"


def test_what_others_wrote_as_their_command_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    said: list[str] = []
    with held_elsewhere(tmp_path, "core-0") as holder:
        (tmp_path / "core-0.holder").write_text(json.dumps({"pid": 7, "command": "\x1b[2Jevil"}))

        def say(line: str) -> None:
            said.append(line)
            holder.kill()

        lock = DeviceLock(["core-0"], tmp_path)
        lock.acquire(say)
    assert "process 7 (?[2Jevil)" in said[0]
    lock.release()


def test_a_core_has_one_name_whichever_of_its_threads_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_lock, "SYSTEM", tmp_path)
    for cpu in (3, 7):
        (tmp_path / f"cpu{cpu}/topology").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}/topology/thread_siblings_list").write_text("3,7\n")
    assert core_names([3]) == core_names([7]) == ["core-3"]
    assert core_names([5]) == ["core-5"]


def test_without_nvml_there_is_no_gpu_to_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_names("gpu-1") == []


class FakeWorker:
    """A GPU's worker: only once started it knows its UUID."""

    def __init__(self) -> None:
        self.identity: dict[str, str] = {}
        self.calls: list[str] = []

    def start(self) -> str:
        self.identity = {"uuid": "GPU-1"}
        self.calls.append("start")
        return "machine"

    def stop(self) -> None:
        self.calls.append("stop")


def test_a_gpu_that_is_in_use_is_not_kept_open_while_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    worker = FakeWorker()
    calls_then: list[str] = []
    with held_elsewhere(tmp_path, "GPU-1") as holder:

        def say(line: str) -> None:
            calls_then.extend(worker.calls)
            holder.kill()

        use = DeviceUse("cuda:1", worker, say)  # type: ignore[arg-type]
        assert use.start() == "machine"  # type: ignore[comparison-overlap]
    assert calls_then == ["start", "stop"]
    assert worker.calls == ["start", "stop", "start"]
    assert use.waited_s > 0
    with held_or_not(tmp_path) as others_may:
        assert not others_may()
        with use.kept():
            use.release()
            assert not others_may()
        assert others_may()


@contextmanager
def held_or_not(folder: Path) -> Iterator[Callable[[], bool]]:
    def others_may() -> bool:
        code = (
            "import sys; from pathlib import Path; from roofexp.devices.device_lock import DeviceLock; "
            "sys.exit(not DeviceLock(['GPU-1'], Path(sys.argv[1])).acquire_at_once())"
        )
        environment = {**os.environ, "PYTHONPATH": python_path()}
        return subprocess.run([sys.executable, "-c", code, str(folder)], env=environment).returncode == 0

    yield others_may


def started(folder: Path, locks: Path, cache: Path, *words: str) -> subprocess.Popen[str]:
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": python_path(), "XDG_CACHE_HOME": str(cache), FOLDER: str(locks)}
    command = [sys.executable, "-m", *words]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


SWEEP = ["roofexp", *QUICK, "device=cpu:1", "kernel=vadd", "size=100000,200000,300000", "timing.budget_s=0.3", "-m"]


def measured(folder: Path) -> list[tuple[float, float]]:
    """When each point was begun and how long it took, UNIX time and s."""
    points = [read_point(file) for file in sorted(folder.glob("outputs/*/*/*/point.json"))]
    assert [point.status for point in points] == ["ok"] * 3, [point.reason for point in points]
    return [(_began(point), point.measuring_s) for point in points]


def _began(point: Point) -> float:
    return datetime.datetime.fromisoformat(point.created).timestamp()


def test_of_two_sweeps_at_once_one_waits_and_both_are_right(tmp_path: Path, cache_folder: Path) -> None:
    locks = tmp_path / "locks"
    sweeps = [started(tmp_path / name, locks, cache_folder, *SWEEP) for name in ("one", "two")]
    texts = [sweep.communicate(timeout=240)[0] for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0, 0], texts
    waited = [text for text in texts if "waiting until it is free" in text]
    assert len(waited) == 1, texts
    (line,) = [line for line in waited[0].splitlines() if "waiting" in line]
    assert any(f"in use by process {sweep.pid} (roofexp " in line for sweep in sweeps)
    first, second = sorted(measured(tmp_path / name) for name in ("one", "two"))
    last_began, last_took_s = first[-1]
    assert second[0][0] >= last_began + last_took_s
    for name in ("one", "two"):
        overheads = [read_point(file).overhead_s for file in (tmp_path / name).glob("outputs/*/*/*/point.json")]
        assert max(overheads) < 30


AUTO = [word for word in SWEEP if not word.startswith("device=")]  # the device is opened by the first point


@pytest.mark.parametrize("words", [SWEEP, AUTO, ["roofexp.roofs", "--device", "cpu:1"]])
def test_who_waits_can_be_interrupted(tmp_path: Path, cache_folder: Path, words: list[str]) -> None:
    locks = tmp_path / "locks"
    with held_elsewhere(locks, *core_names(os.sched_getaffinity(0))):
        sweep = started(tmp_path / "sweep", locks, cache_folder, *words)
        assert sweep.stdout
        for line in sweep.stdout:
            if "waiting until it is free" in line:
                break
        time.sleep(0.2)
        sweep.send_signal(signal.SIGINT)
        text = sweep.communicate(timeout=60)[0]
    assert sweep.returncode == 130, text
    assert "Traceback" not in text
    assert not list(tmp_path.glob("sweep/outputs/*/*/*/point.json"))


def test_jobs_of_a_launcher_take_turns(tmp_path: Path, cache_folder: Path) -> None:
    joblib = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    sweep = started(tmp_path / "sweep", tmp_path / "locks", cache_folder, *SWEEP, *joblib)
    text = sweep.communicate(timeout=240)[0]
    assert sweep.returncode == 0, text
    spans = sorted(measured(tmp_path / "sweep"))
    for (began, took_s), (later, _) in itertools.pairwise(spans):
        assert later >= began + took_s


def test_the_name_left_beside_a_lock_has_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["roofexp", "kernel=vadd", "tracking.uri=http://me:geheim@server"])
    lock = FileLock(tmp_path / "core-0.lock")
    device_lock._sign(lock)
    assert "geheim" not in (tmp_path / "core-0.holder").read_text()
