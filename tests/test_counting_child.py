"""The process under ncu: it runs each point's launch once, says what it does, and stays out of everything else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from roofexp.errors import BadInputError, FailedError
from roofexp.ncu.child import (
    CHILD,
    EXIT_NO_DEVICE,
    EXIT_ORPHAN,
    EXIT_TIMEOUT,
    Plan,
    ProgressFile,
    Step,
    Task,
    at_work,
    run_tasks,
)
from roofexp.ncu.session import child_environment, is_child
from tests.counted_sweep import MACHINE
from tests.kernel_cases import build

ROOT = Path(__file__).parent.parent


class StubKernel:
    def __init__(self, device: StubDevice, name: str) -> None:
        self.device, self.name = device, name

    def profile(self, name: str, hot: bool) -> None:
        self.device.did.append(("profile", name, hot))
        if self.device.breaks == self.name:
            raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    def release(self) -> None:
        self.device.did.append(("release", self.name))


class StubDevice:
    """A GPU that notes what is asked of it."""

    def __init__(self, breaks: str | None = None, refuses: str | None = None) -> None:
        self.did: list[tuple] = []
        self.breaks, self.refuses = breaks, refuses

    def machine(self):
        return MACHINE

    def load(self, kernel, implementation, seed):
        self.did.append(("load", kernel.name, implementation, seed))
        if self.refuses == kernel.name:
            raise BadInputError("does not compile")
        return StubKernel(self, kernel.name)

    def explain(self, error):
        return FailedError("kernel fault", "the kernel accessed memory that is not its own")


def task(name: str, kernel: str, hot: bool = False) -> Task:
    return Task(name=name, kernel=build(kernel, "fp32", 64), implementation="cuda", seed=3, hot=hot)


@pytest.fixture
def progress(tmp_path: Path) -> ProgressFile:
    return ProgressFile(tmp_path / "progress")


def test_each_point_is_loaded_profiled_and_freed_before_the_next(progress: ProgressFile) -> None:
    device = StubDevice()
    assert run_tasks([task("a", "saxpy"), task("b", "copy", hot=True)], device, progress)
    assert device.did == [
        ("load", "saxpy", "cuda", 3), ("profile", "a", False), ("release", "saxpy"),
        ("load", "copy", "cuda", 3), ("profile", "b", True), ("release", "copy"),
    ]  # fmt: skip
    assert [(step.state, step.name) for step in progress.read()] == [
        ("start", "a"), ("done", "a"), ("start", "b"), ("done", "b"),
    ]  # fmt: skip


def test_a_kernel_that_cannot_be_built_costs_itself_only(progress: ProgressFile) -> None:
    assert run_tasks([task("a", "saxpy"), task("b", "copy")], StubDevice(refuses="saxpy"), progress)
    states = [(step.state, step.name, step.reason) for step in progress.read() if step.state != "start"]
    assert states == [("refused", "a", "does not compile"), ("done", "b", "")]


def test_after_a_fault_nothing_more_is_run_in_this_process(progress: ProgressFile) -> None:
    device = StubDevice(breaks="saxpy")
    assert not run_tasks([task("a", "saxpy"), task("b", "copy")], device, progress)
    last = progress.read()[-1]
    assert (last.state, last.name, last.reason) == ("failed", "a", "the kernel accessed memory that is not its own")
    assert ("load", "copy", "cuda", 3) not in device.did


def test_who_was_at_work_is_known_after_any_end(progress: ProgressFile) -> None:
    progress.say(Step(state="start", name="a"))
    progress.say(Step(state="done", name="a"))
    assert at_work(progress.read()) is None
    progress.say(Step(state="start", name="b"))
    with progress.path.open("a") as file:
        file.write('{"state": "don')  # killed while it wrote
    assert at_work(progress.read()) == "b"


def test_tasks_survive_their_file() -> None:
    """Counting rebuilds what was timed: nothing of a kernel may be lost on the way."""
    before = Plan(device="cuda:1", roots=["kernels"], tasks=[task("a", "gemm_tiled")], timeout_s=5, parent=1)
    assert msgspec.json.decode(msgspec.json.encode(before), type=Plan) == before


def test_it_brings_no_mlflow_and_no_run_of_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """ML-08."""
    monkeypatch.setenv("MLFLOW_RUN_ID", "0123456789abcdef")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///elsewhere.db")
    assert not [name for name in child_environment("cuda") if name.startswith("MLFLOW_")]
    code = "import sys, roofexp.ncu.child; print([m for m in sys.modules if m.startswith(('mlflow', 'hydra'))])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_ncu_writes_its_numbers_in_one_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert child_environment("cpu")["LC_ALL"] == "C"


def test_only_a_child_of_ours_is_ended() -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    for more, ours in ((["-m", CHILD], True), ([], False)):
        with subprocess.Popen([*sleeping, *more]) as process:
            try:
                until = time.monotonic() + 20
                while ours and not is_child(process.pid) and time.monotonic() < until:
                    time.sleep(0.05)  # a loaded machine takes its time to start it
                assert is_child(process.pid) is ours
            finally:
                process.kill()


def start_child(tmp_path: Path, body: str = "", **plan: object) -> subprocess.CompletedProcess[str]:
    """The real process, with ``body`` run before it."""
    given = {"device": "cuda", "roots": [], "tasks": [], "timeout_s": 0.4, "parent": os.getpid(), **plan}
    (tmp_path / "plan.json").write_text(json.dumps(given))
    code = f"import roofexp.ncu.child as child\n{body}\nchild.main()"
    return subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "plan.json"), str(tmp_path / "progress")],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_without_a_gpu_it_says_why(tmp_path: Path, progress: ProgressFile) -> None:
    done = start_child(tmp_path, device="cuda:97")
    assert done.returncode == EXIT_NO_DEVICE, done.stderr
    step = progress.read()[0]
    assert step.state == "failed"
    assert step.reason


HANGS = """
import time
class Device:
    def machine(self):
        from roofexp.records.machine import Machine
        return Machine(machine_id='m', device='cuda', name='G', units=1, nominal_hz=None, memory_bytes=None)
    def load(self, *arguments):
        time.sleep(60)
child._open = lambda plan: Device()
"""


def test_a_point_that_takes_too_long_ends_the_process(tmp_path: Path, progress: ProgressFile) -> None:
    done = start_child(tmp_path, HANGS, tasks=[msgspec.to_builtins(task("a", "saxpy"))])
    assert done.returncode == EXIT_TIMEOUT, done.stderr
    assert [(step.state, step.name) for step in progress.read()[1:]] == [("start", "a"), ("timeout", "a")]


def test_it_does_not_outlive_the_sweep(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    done = start_child(tmp_path, HANGS, tasks=[msgspec.to_builtins(task("a", "saxpy"))], parent=gone.pid, timeout_s=50)
    assert done.returncode == EXIT_ORPHAN, done.stderr


def test_on_another_gpu_nothing_is_run(tmp_path: Path, progress: ProgressFile) -> None:
    done = start_child(tmp_path, HANGS, tasks=[msgspec.to_builtins(task("a", "saxpy"))], machine_name="H")
    assert done.returncode == EXIT_NO_DEVICE
    assert [(step.state, step.machine_name) for step in progress.read()] == [("ready", "G")]
