"""Clock modes: what they ask, who is refused, and that clocks are given back after every way of dying.

All against a GPU that is a file and an ncu that is a script: nothing here touches a clock.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from roofexp.clocks import HELD, asked_for, check_clock, find_roofs, roofs_mode
from roofexp.clocks.hold import ClockHold, HoldResult, Target, with_asked
from roofexp.clocks.journal import Journal, allowed_modes, boot_id, left_over, new_record, restore_left_over
from roofexp.clocks.lock_methods import NcuHold, clock_controls
from roofexp.config.paths import conf_folder
from roofexp.devices.nvml import RefusedError
from roofexp.errors import BadInputError
from roofexp.records.clock_readings import ClockReadings
from roofexp.records.point import Clock, read_point
from tests.conftest import python_path
from tests.fake_nvml import UUID, FakeGpu, open_fake
from tests.made_points import roofs

LOCKED = {"mode": "locked", "mhz": 1200, "shared": False}
TARGET = Target(identity={"uuid": UUID, "bus_id": "0"}, worker_pid=77, environment=dict(os.environ))


class Rig:
    """A fake GPU, a folder for journals, and what was said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gpu = FakeGpu(folder / "gpu.json")
        self.journals = folder / "clocks"
        self.said: list[str] = []
        self.ncu: Path | None = None
        self.opened = 0
        self.hold = self.new_hold()

    def new_hold(self) -> ClockHold:
        def opening(uuid: str):
            self.opened += 1
            return open_fake(self.gpu)(uuid)

        return ClockHold(self.journals, opening, lambda: self.ncu)

    def ensure(self, clock: dict, hold: ClockHold | None = None) -> HoldResult:
        return (hold or self.hold).ensure(clock, lambda: TARGET, self.said.append)

    @property
    def journal(self) -> Path:
        return self.journals / f"{UUID}.json"

    @property
    def locked(self):
        return self.gpu.state["locked"]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.hold.release(lambda line: None)


# What is asked


def test_what_each_mode_asks_for() -> None:
    assert asked_for({"mode": "observe", "duty": 0.3, "mhz": 5}) is None
    assert asked_for({"mode": "duty", "duty": 0.4}) == "duty 0.4"
    assert asked_for(LOCKED) == "1200 MHz locked"
    assert asked_for({"mode": "base"}) == "base clock"


@pytest.mark.parametrize(
    ("clock", "says"),
    [
        ({"mode": "locked"}, "clock.mhz=null"),
        ({"mode": "locked", "mhz": -5}, "clock.mhz=-5"),
        ({"mode": "duty"}, "clock.duty=null"),
        ({"mode": "duty", "duty": 1.5}, "clock.duty=1.5"),
        ({"mode": "duty", "duty": 0}, "above 0"),
        ({"mode": "duty", "duty": 0.5, "period_s": 0}, "clock.period_s=0"),
        ({"mode": "observe", "sample_s": 0}, "clock.sample_s=0"),
    ],
)
def test_a_mode_without_its_value_is_refused(clock: dict, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        check_clock(clock)


def test_each_locked_clock_has_roofs_of_its_own_and_pauses_need_none() -> None:
    assert roofs_mode("duty", "duty 0.4") == "observe"
    assert roofs_mode("locked", "1200 MHz locked") != roofs_mode("locked", "1800 MHz locked")
    sets = [roofs(clock_mode=mode) for mode in ("locked_1800MHz", "observe", "locked_1200MHz")]
    assert find_roofs(sets, "cafe", "locked", "1200 MHz locked") is sets[2]
    assert find_roofs(sets, "cafe", "duty", "duty 0.4") is sets[1]
    assert find_roofs(sets, "cafe", "locked", "900 MHz locked") is sets[1]
    assert find_roofs(sets, "beef", "observe", None) is None


# Taking and giving back


@pytest.mark.parametrize("mode", ["observe", "duty"])
def test_nothing_is_touched_unless_it_was_asked_for(rig: Rig, mode: str) -> None:
    held = rig.ensure({"mode": mode, "duty": 0.5, "mhz": 1200, "shared": True})
    assert held.locked is None
    assert rig.opened == 0
    assert rig.gpu.state["orders"] == []
    assert not rig.journals.exists()


def test_a_lock_is_journalled_before_it_is_taken_and_undone_with_its_session(rig: Rig) -> None:
    seen = []

    def look(when: str) -> None:
        seen.append((when, json.loads(rig.journal.read_text())["asked"], json.loads(rig.journal.read_text())["pid"]))

    rig.gpu._on_lock = look
    held = rig.ensure(LOCKED)
    assert seen[0] == ("before", "1200 MHz locked", os.getpid())
    assert held.locked is True
    assert held.roofs_mode == "locked_1200MHz"
    assert rig.locked == [1200, 1200]
    assert json.loads(rig.journal.read_text())["was"] == {"sm_hz": 1.98e9, "memory_hz": 3.201e9}
    rig.hold.release()
    assert rig.locked is None
    assert not rig.journal.exists()
    assert rig.said == []


def test_a_lock_stays_between_points_and_changes_with_the_mode(rig: Rig) -> None:
    for _ in range(3):
        rig.ensure(LOCKED)
    assert rig.gpu.state["orders"] == ["lock"]
    rig.ensure(LOCKED | {"mhz": 345})
    assert rig.locked == [345, 345]
    rig.ensure({"mode": "observe"})
    assert rig.locked is None
    assert rig.gpu.state["orders"] == ["lock", "reset", "lock", "reset"]


@pytest.mark.parametrize(
    ("state", "clock", "says"),
    [
        ({"refuses": {"lock": "permission"}}, LOCKED, "may not change the clocks"),
        ({"refuses": {"lock": "unsupported"}}, LOCKED, "does not lock clocks"),
        ({"refuses": {"lock": "lost"}}, LOCKED, "gone"),
        ({"pids": [77, 4711]}, LOCKED, "1 other program uses this GPU"),
        ({"pids": [1, 2, 3]}, LOCKED, "2 other programs use this GPU"),
        ({"pids": None}, LOCKED, "does not say who else"),
        ({"mig": True}, LOCKED | {"shared": True}, "MIG"),
        ({}, {"mode": "base"}, "ncu"),
    ],
)
def test_a_refusal_is_one_line_and_leaves_nothing(rig: Rig, state: dict, clock: dict, says: str) -> None:
    rig.gpu.set(**state)
    for _ in range(2):
        held = rig.ensure(clock)
    assert held.locked is False
    assert held.roofs_mode == "observe"
    (line,) = rig.said
    assert says in line
    assert "Going on" in line
    assert rig.locked is None
    assert not rig.journal.exists()
    clock_record, (flag,) = with_asked(Clock(compute_hz=1.9e9), held, 1.98e9)
    assert clock_record is not None
    assert clock_record.readings.clocks_locked is False
    assert clock_record.asked == asked_for(clock)
    assert flag.name == "clocks not locked"
    assert says in flag.message


def test_a_gpu_that_others_use_is_locked_only_when_that_was_said(rig: Rig) -> None:
    rig.gpu.set(pids=[77, 4711])
    assert rig.ensure(LOCKED | {"shared": True}).locked is True


def test_a_clock_that_the_gpu_does_not_have_is_bad_input(rig: Rig) -> None:
    with pytest.raises(BadInputError, match="from 345 to 1980 MHz"):
        rig.ensure(LOCKED | {"mhz": 2500})
    assert rig.gpu.state["orders"] == []


def test_a_cpu_has_no_clocks_to_lock(rig: Rig) -> None:
    cpu = Target(identity={}, worker_pid=1)
    assert rig.hold.ensure(LOCKED, lambda: cpu, rig.said.append).locked is False
    assert "CPU" in rig.said[0]


def test_without_a_journal_no_clock_is_touched(rig: Rig) -> None:
    rig.journals.write_text("a file where the folder should be")
    assert rig.ensure(LOCKED).locked is False
    assert "journal" in rig.said[0]
    assert rig.gpu.state["orders"] == []


def test_two_runs_do_not_hold_the_same_gpu(rig: Rig) -> None:
    other = rig.new_hold()
    assert rig.ensure(LOCKED).locked is True
    assert rig.ensure(LOCKED | {"mhz": 345}, other).locked is False
    assert "another roofexp" in rig.said[0]
    assert rig.locked == [1200, 1200]
    rig.hold.release()
    assert rig.ensure(LOCKED | {"mhz": 1980}, other).locked is True
    other.release()
    assert rig.locked is None


@pytest.mark.parametrize("error", [RuntimeError("a mistake"), KeyboardInterrupt(), SystemExit(1), MemoryError()])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_exception_between_journal_and_lock_leaves_nothing(rig: Rig, when: str, error: BaseException) -> None:
    def fail(at: str) -> None:
        if at == when:
            raise error

    rig.gpu._on_lock = fail
    with pytest.raises(type(error)):
        rig.ensure(LOCKED)
    assert rig.locked is None
    assert not rig.journal.exists()
    rig.gpu._on_lock = None
    assert rig.ensure(LOCKED).locked is True  # and nothing is still held by its lock file


def test_clocks_that_cannot_be_given_back_stay_in_the_journal(rig: Rig) -> None:
    rig.ensure(LOCKED)
    rig.gpu.set(refuses={"reset": "lost"})
    rig.hold.release(rig.said.append)
    assert "could not be given back" in rig.said[0]
    assert "--reset-gpu-clocks" in rig.said[0]
    assert rig.journal.exists()
    rig.gpu.set(refuses={})
    (line,) = restore_left_over(rig.journals, open_fake(rig.gpu))
    assert "given back" in line
    assert rig.locked is None


def test_a_signal_while_clocks_are_given_back_waits_for_its_end(rig: Rig) -> None:
    rig.ensure(LOCKED)
    reset = rig.gpu.nvmlDeviceResetGpuLockedClocks

    def interrupted(handle: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        reset(handle)

    rig.gpu.nvmlDeviceResetGpuLockedClocks = interrupted
    with pytest.raises(KeyboardInterrupt):
        rig.hold.release()
    assert rig.locked is None
    assert not rig.journal.exists()


# What was held


def test_the_record_says_what_was_asked_and_what_was_held() -> None:
    held = HoldResult(asked="1200 MHz locked", locked=True)
    clock, flags = with_asked(Clock(compute_hz=1.19e9), held, 1.98e9)
    assert clock is not None
    assert (clock.asked, clock.readings.clocks_locked, flags) == ("1200 MHz locked", True, [])
    _, (flag,) = with_asked(Clock(compute_hz=1.42e9), HoldResult(asked="1800 MHz locked", locked=True), 1.98e9)
    assert flag.name == "clocks not held"
    assert "1420 MHz" in flag.message
    _, (flag,) = with_asked(
        Clock(compute_hz=1.9e9, readings=ClockReadings(nvml_sm_hz=1.98e9)),
        HoldResult(asked="base clock", locked=True),
        1.98e9,
    )
    assert flag.name == "clocks not held"
    clock, flags = with_asked(Clock(compute_hz=1.9e9), HoldResult(asked="duty 0.4"), 1.98e9)
    assert clock is not None
    assert (clock.asked, clock.readings.clocks_locked is not None, flags) == ("duty 0.4", False, [])
    assert with_asked(None, HoldResult(), None) == (None, [])


# Deaths: a process that holds the clocks, ended from outside

HOLDER = """
import signal, sys, time
from pathlib import Path
from roofexp.clocks.hold import ClockHold, Target
from tests.fake_nvml import UUID, FakeGpu, open_fake
folder, how = Path(sys.argv[1]), sys.argv[2]
if how == "cli":
    from roofexp.run.signals import StopRequest
    StopRequest().listen()
hold = ClockHold(folder / "clocks", open_fake(FakeGpu(folder / "gpu.json")))
target = Target(identity={"uuid": UUID}, worker_pid=None)
held = hold.ensure({"mode": "locked", "mhz": 1200}, lambda: target, print)
print("holding" if held.locked else held.reason, flush=True)
if how == "exception":
    raise RuntimeError("unforeseen")
if how == "exit":
    sys.exit(3)
time.sleep(60)
"""


def holder(folder: Path, how: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), how], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": python_path()},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline().strip() == "holding"
    return process


@pytest.mark.parametrize(
    ("how", "number"),
    [
        ("wait", signal.SIGTERM),
        ("wait", signal.SIGINT),
        ("wait", signal.SIGHUP),
        ("cli", signal.SIGTERM),
        ("exception", None),
        ("exit", None),
    ],
)
def test_clocks_are_given_back_however_the_process_ends(rig: Rig, how: str, number: int | None) -> None:
    process = holder(rig.folder, how)
    if number is not None:
        assert rig.locked == [1200, 1200]
        process.send_signal(number)
    assert process.wait(20) != 0
    assert rig.gpu.state["orders"] == ["lock", "reset"]
    assert rig.locked is None
    assert not rig.journal.exists()


def test_after_kill_9_the_next_start_gives_the_clocks_back(rig: Rig) -> None:
    process = holder(rig.folder, "wait")
    assert restore_left_over(rig.journals, open_fake(rig.gpu)) == []  # a living run's clocks are its own
    assert rig.locked == [1200, 1200]
    process.kill()
    process.wait()
    assert rig.locked == [1200, 1200]
    (line,) = restore_left_over(rig.journals, open_fake(rig.gpu))
    assert f"process {process.pid}" in line
    assert "1200 MHz locked" in line
    assert rig.locked is None
    assert restore_left_over(rig.journals, open_fake(rig.gpu)) == []


def test_a_new_lock_clears_what_a_killed_run_left(rig: Rig) -> None:
    process = holder(rig.folder, "wait")
    process.kill()
    process.wait()
    assert rig.ensure(LOCKED | {"mhz": 345}).locked is True
    assert "given back" in rig.said[0]
    assert rig.gpu.state["orders"] == ["lock", "reset", "lock"]
    assert json.loads(rig.journal.read_text())["asked"] == "345 MHz locked"


# What is left over


def leave(rig: Rig, **changes: object) -> None:
    """A journal as a dead process leaves it."""
    rig.journals.mkdir(exist_ok=True)
    dead = {"pid": 2**22 + 1, **changes}  # a number that Linux never gives
    entry = msgspec.structs.replace(new_record(UUID, "nvml", "1200 MHz locked"), **dead)
    rig.journal.write_bytes(msgspec.json.encode(entry))
    rig.gpu.set(locked=[1200, 1200])


def test_a_process_number_that_is_used_again_is_not_the_owner(rig: Rig) -> None:
    leave(rig, pid=os.getppid(), process_started=1.0)
    assert len(restore_left_over(rig.journals, open_fake(rig.gpu))) == 1
    assert rig.locked is None


def test_no_lock_survives_a_start_of_the_machine(rig: Rig) -> None:
    leave(rig, boot="another")
    assert restore_left_over(rig.journals, open_fake(rig.gpu)) == []
    assert rig.gpu.state["orders"] == []
    assert not rig.journal.exists()
    assert boot_id() == boot_id()


@pytest.mark.parametrize("text", [b"", b"{", b'{"version": 99}', b"\x00\xff"])
def test_a_journal_that_cannot_be_read_is_taken_for_a_lock(rig: Rig, text: bytes) -> None:
    leave(rig)
    rig.journal.write_bytes(text)
    (line,) = restore_left_over(rig.journals, open_fake(rig.gpu))
    assert "cannot be read" in line
    assert rig.locked is None
    assert not rig.journal.exists()


def test_a_gpu_that_is_gone_and_missing_rights_keep_the_journal(rig: Rig) -> None:
    leave(rig)
    (line,) = restore_left_over(rig.journals, lambda uuid: None)
    assert "not there now" in line
    rig.gpu.set(refuses={"reset": "permission"})
    (line,) = restore_left_over(rig.journals, open_fake(rig.gpu))
    assert "may not change" in line
    assert rig.journal.exists()
    assert [entry.asked for _, entry in left_over(rig.journals) if entry] == ["1200 MHz locked"]


def test_a_start_without_journals_opens_no_gpu(tmp_path: Path) -> None:
    def never(uuid: str) -> None:
        raise AssertionError("opened")

    assert restore_left_over(tmp_path / "none", never) == []
    Journal(tmp_path, UUID).acquire()
    assert restore_left_over(tmp_path, never) == []


# ncu's own control

FAKE_NCU = """#!{python}
import json, os, subprocess, sys
from pathlib import Path
state, says = Path({state!r}), {says!r}
words = sys.argv[1:]
with state.open("a") as file:
    file.write(json.dumps(words) + "\\n")
if "--help" in words:
    print('''  --clock-control arg (=base)   Control the behavior of the GPU clocks during profiling:
                                  base
                                  none
                                  reset{boost}
  --cache-control arg (=all)''')
    sys.exit(0)
mode = words[words.index("--clock-control") + 1]
if mode == "reset":
    sys.exit({reset})
if says:
    print(says, flush=True)
    sys.exit(1 if says.startswith("==ERROR==") else 0)
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdin=sys.stdin)
child.wait()
with state.open("a") as file:
    file.write('["restored"]\\n')
"""
CHILD = "import sys; print('ready', flush=True); sys.stdin.buffer.read()"


def fake_ncu(folder: Path, says: str = "", boost: bool = False, child: str = CHILD, reset: int = 0) -> Path:
    path = folder / "ncu"
    text = FAKE_NCU.format(
        python=sys.executable, state=str(folder / "ncu.jsonl"), says=says, child=child, reset=reset,
        boost="\n                                  boost" if boost else "",
    )  # fmt: skip
    path.write_text(text)
    path.chmod(0o755)
    return path


def asked_of_ncu(folder: Path) -> list[list[str]]:
    return [json.loads(line) for line in (folder / "ncu.jsonl").read_text().splitlines()]


def test_the_base_clock_is_held_by_an_idle_process_under_ncu(rig: Rig) -> None:
    rig.ncu = fake_ncu(rig.folder)
    held = rig.ensure({"mode": "base"})
    assert held.locked is True
    assert held.roofs_mode == "base"
    assert json.loads(rig.journal.read_text())["by"] == "ncu"
    words = asked_of_ncu(rig.folder)[-1]
    assert words[words.index("--clock-control") + 1] == "base"
    assert words[-3:] == ["-P", "-m", "roofexp.clocks.idle"]
    assert rig.gpu.state["orders"] == []
    rig.hold.release()
    assert asked_of_ncu(rig.folder)[-1] == ["restored"]  # by itself, nothing was killed
    assert not rig.journal.exists()


def test_boost_needs_an_ncu_that_has_it(rig: Rig) -> None:
    rig.ncu = fake_ncu(rig.folder)
    assert rig.ensure({"mode": "boost"}).locked is False
    assert "no clock control 'boost', only none, base, reset" in rig.said[0]
    newer = rig.folder / "newer"
    newer.mkdir()
    rig.ncu = fake_ncu(newer, boost=True)
    assert clock_controls(rig.ncu) == ["none", "base", "boost", "reset"]
    rig.hold = rig.new_hold()
    assert rig.ensure({"mode": "boost"}).locked is True


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ERR_NVGPUCTRPERM"),
        ("==WARNING== Failed to lock clocks for device 0", "Failed to lock clocks"),
        ("nothing of use", "did not start"),
    ],
)
def test_an_ncu_that_may_not_hold_the_clocks_is_one_line(rig: Rig, says: str, expected: str) -> None:
    rig.ncu = fake_ncu(rig.folder, says)
    assert rig.ensure({"mode": "base"}).locked is False
    assert expected in rig.said[0]
    assert not rig.journal.exists()


def test_an_ncu_that_died_is_started_again(rig: Rig) -> None:
    rig.ncu = fake_ncu(rig.folder)
    rig.ensure({"mode": "base"})
    way = rig.hold._method
    assert isinstance(way, NcuHold)
    assert way._process
    os.killpg(way._process.pid, signal.SIGKILL)
    way._process.wait()
    assert rig.ensure({"mode": "base"}).locked is True
    assert rig.hold._method is not way


def test_an_ncu_that_does_not_end_is_killed_and_the_clocks_are_reset(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofexp.clocks.lock_methods.END_S", 0.2)
    rig.ncu = fake_ncu(rig.folder, child="import time; print('ready', flush=True); time.sleep(60)")
    rig.ensure({"mode": "base"})
    rig.hold.release(rig.said.append)
    assert asked_of_ncu(rig.folder)[-1][-1] == "reset"
    assert rig.said == []
    assert not rig.journal.exists()


def test_what_a_killed_run_held_by_ncu_is_reset_by_ncu(rig: Rig) -> None:
    leave(rig, by="ncu", ncu=str(fake_ncu(rig.folder)), asked="base clock")
    (line,) = restore_left_over(rig.journals, open_fake(rig.gpu))
    assert "base clock" in line
    assert asked_of_ncu(rig.folder)[-1][-1] == "reset"
    leave(rig, by="ncu", ncu=str(fake_ncu(rig.folder, reset=1)), asked="base clock")
    (line,) = restore_left_over(rig.journals, open_fake(rig.gpu))
    assert "exit code 1" in line
    with pytest.raises(RefusedError):
        NcuHold(rig.folder / "ncu", "boost", UUID, {}).check()


# What is allowed, and what a whole run does


def test_the_modes_that_a_machine_allows_are_told_without_trying_any(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = open_fake(rig.gpu)(UUID)

    def told() -> dict[str, tuple[bool, str]]:
        return {found.modes: (found.allowed, found.says) for found in allowed_modes(nvml, rig.ncu, rig.journals)}

    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert told()["observe, duty"][0]
    assert told()["locked"] == (
        True,
        "clock.mhz from 345 to 1980; allowed unless the container or a virtual GPU forbids it",
    )
    assert not told()["base, boost"][0]
    rig.ncu = fake_ncu(rig.folder)
    assert told()["base"][0]
    assert "2025.4" in told()["boost"][1]
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert not told()["locked"][0]
    rig.gpu.set(pids=[5])
    assert "would be theirs too" in told()["base"][1]
    leave(rig)
    assert "1200 MHz locked" in told()["left over"][1]
    assert rig.gpu.state["orders"] == []
    assert rig.journal.exists()
    assert [found.allowed for found in allowed_modes(None, None, rig.journals)] == [True, False]


def test_no_committed_configuration_holds_clocks() -> None:
    for file in (conf_folder() / "experiment").glob("*.yaml"):
        words = yaml.safe_load(file.read_text())
        chosen = [entry.get("override /clock") for entry in words.get("defaults", []) if isinstance(entry, dict)]
        swept = str((words.get("hydra", {}).get("sweeper", {}).get("params") or {}).get("clock", ""))
        for mode in [*chosen, words.get("clock", {}).get("mode"), *swept.split(",")]:
            assert str(mode).strip() not in HELD, file
    defaults = yaml.safe_load((conf_folder() / "config.yaml").read_text())["defaults"]
    assert {"clock": "observe"} in defaults


def test_a_sweep_over_clock_modes(program, sweep_folder) -> None:
    """Pauses are kept; a lock that this machine does not have is one line and a flag; the points differ everywhere."""
    done = program("kernel=vadd", "size=200000", "clock=duty,locked", "clock.duty=0.4", "clock.mhz=1200", "-m")
    assert done.returncode == 0, done.stdout + done.stderr
    points = [read_point(sweep_folder() / str(job) / "point.json") for job in (0, 1)]
    paused, refused = (point.clock for point in points)
    assert paused
    assert refused
    assert (paused.asked, refused.asked) == ("duty 0.4", "1200 MHz locked")
    assert paused.readings.duty_held == pytest.approx(0.4, abs=0.05)
    assert refused.readings.clocks_locked is False
    assert "clocks not locked" in {flag.name for flag in points[1].flags}
    assert sum("1200 MHz locked is not possible here" in line for line in done.stdout.splitlines()) == 1
    assert "duty 0.4" in done.stdout
    assert len({point.config_hash for point in points}) == len({point.label for point in points}) == 2
    rows = list(csv.DictReader((sweep_folder() / "points.csv").open()))
    assert [row["clock_asked"] for row in rows] == ["duty 0.4", "1200 MHz locked"]
