"""Code that is measured may do anything in the worker: it costs its own point, and no other."""

from __future__ import annotations

import json
import os
import select
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from roofexp.devices.cuda.code import CompileError
from roofexp.measure import bench, channel
from roofexp.measure.bench import Bench, Request
from roofexp.measure.channel import HEADER, Channel, GarbledError, Patience
from roofexp.records.point import Clock
from tests.test_timing import SETTINGS

CODE = """
import gc, os, socket, struct, time
calls = [0]
def sockets():
    return [thing for thing in gc.get_objects() if isinstance(thing, socket.socket)]
def healthy(x, y): y[:] = 2 * x
def garbage(x, y):
    for end in sockets(): end.sendall(b"garbage that is no message " * 3)
    y[:] = 2 * x
def long_message(x, y):
    for end in sockets(): end.sendall(struct.pack("!i", 2**31 - 1))
    y[:] = 2 * x
def every_file(x, y):
    for number in range(3, 60):
        try: os.write(number, b"text")
        except OSError: pass
    y[:] = 2 * x
def twin(x, y):
    calls[0] += 1
    y[:] = 2 * x
    if calls[0] == 3: os.fork()
def closes(x, y):
    os.closerange(3, 100)
    y[:] = 2 * x
def prints(x, y):
    os.write(1, b"raw \\xff\\xfe bytes\\n"); os.write(2, b"E" * 1000)
    y[:] = 2 * x
def long_text(x, y): raise RuntimeError("A" * 50_000_000)
def leaves(x, y): os._exit(0)
"""
OK, FAILED = "ok", "failed"
EXPECTED = {
    "garbage": FAILED, "long_message": FAILED, "every_file": FAILED, "twin": OK, "closes": FAILED, "prints": OK,
    "long_text": FAILED, "leaves": FAILED, "healthy": OK,
}  # fmt: skip


def test_code_that_misbehaves_costs_its_own_point(program, tmp_path: Path, sweep_folder) -> None:
    (tmp_path / "mine/kernel").mkdir(parents=True)
    (tmp_path / "mine/kernels").mkdir()
    (tmp_path / "mine/kernels/bad.py").write_text(CODE)
    for name in EXPECTED:
        (tmp_path / f"mine/kernel/{name}.yaml").write_text(
            f"name: {name}\nsize: 1000\nshape: {{n: '${{size}}'}}\noperands:\n  x: {{shape: [n], role: in}}\n"
            "  y: {shape: [n], role: out}\nwork: {flops: n, bytes: 2*n*itemsize}\nreference: 2 * x\n"
            f"precisions: [fp64]\ncpu: {{function: 'bad.py:{name}'}}\n"
        )
    done = program(
        "--config-dir", "mine", f"kernel={','.join(EXPECTED)}", "precision=fp64", "timing.timeout_s=20", "-m"
    )
    folder = sweep_folder()
    records = {name: json.loads((folder / f"{job}/point.json").read_text()) for job, name in enumerate(EXPECTED)}
    assert {name: record["status"] for name, record in records.items()} == EXPECTED, done.stdout
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "something other than the worker's answer" in records["garbage"]["reason"]
    assert len(records["long_text"]["reason"]) <= 600
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 5_000_000


def ends() -> tuple[Channel, Channel]:
    ours, theirs = socket.socketpair()
    program = Channel.opened(ours)
    return program, Channel.joined(theirs)


def test_a_message_arrives_as_it_was_sent() -> None:
    program, worker = ends()
    program.number = 7
    program.send(b"request")
    assert worker.receive() == b"request"
    worker.send(b"x" * 100_000)
    assert program.receive(Patience(5)) == b"x" * 100_000


def test_an_answer_to_another_request_is_refused() -> None:
    program, worker = ends()
    worker.number = 3
    worker.send(b"late")
    program.number = 4
    with pytest.raises(GarbledError):
        program.receive(Patience(5))


def test_a_changed_message_is_refused() -> None:
    program, worker = ends()
    worker._end.sendall(HEADER.pack(worker._mark, 0, 12345, 4) + b"text")
    with pytest.raises(GarbledError):
        program.receive(Patience(5))


def test_an_answer_that_waits_is_read_though_the_time_is_over() -> None:
    program, worker = ends()
    patience = Patience(0.05)
    worker.send(b"answer")
    time.sleep(0.2)
    assert program.receive(patience) == b"answer"
    with pytest.raises(TimeoutError):
        program.receive(patience)


def test_while_the_program_is_stopped_the_deadline_comes_no_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock jumps by an hour at the second look, as after a laptop's lid; the answer comes 5 s later."""
    clock = SimpleNamespace(now=0.0, looks=0)

    def look(readable, writable, special, left_s):
        clock.looks += 1
        clock.now += 3600.0 if clock.looks == 2 else left_s
        return (readable if clock.looks > 7 else [], [], [])

    monkeypatch.setattr(channel.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(channel.select, "select", look)
    assert Patience(10.0).wait_for(None)
    clock.looks = 100
    monkeypatch.setattr(
        channel.select, "select", lambda *ends: clock.__setattr__("now", clock.now + ends[3]) or ([],) * 3
    )
    patience, start = Patience(10.0), clock.now
    assert not patience.wait_for(None)
    assert clock.now - start == pytest.approx(10.0)


class LateFaultError(Exception): ...


class LateDevice:
    """A device that reports the fault of a kernel's last launch at the next call."""

    kind = "cuda"

    def __init__(self) -> None:
        self.pending = False

    def __getattr__(self, name: str):
        return {
            "choose": lambda kernel: "cuda", "bytes_needed": lambda kernel: 0, "bytes_free": lambda: 1,
            "wake": lambda: None, "timer_floor_s": lambda cold: 1e-6, "explain": lambda error: None,
            "clock_watch": lambda settings: SimpleNamespace(
                start=lambda: None, stop=lambda: Clock(compute_hz=1e9), rows=list, lap=lambda: None
            ),
        }[name]  # fmt: skip

    def load(self, kernel, implementation: str, seed: int):
        return SimpleNamespace(
            method="events", flags=[], check=lambda: None, run_hot=self.launch, restore=lambda: None,
            run_cold=lambda: self.launch(1), release=lambda: None,
        )  # fmt: skip

    def launch(self, launches: int) -> float:
        self.pending = True
        return 1e-4 * launches

    def finish(self) -> None:
        if self.pending:
            raise LateFaultError("an illegal memory access was encountered")


def test_a_fault_that_is_reported_late_is_this_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "clock_facts", lambda clock, *rest: (clock, []))
    request = Request(
        kernel=SimpleNamespace(), timing=SETTINGS, cold=True, seed=1, clock={"mode": "observe"}  # type: ignore[arg-type]
    )  # fmt: skip
    reply = Bench(LateDevice()).run(request)
    assert reply.status == "failed"
    assert "illegal memory access" in (reply.reason or "")
    assert reply.poisoned


def test_the_gpu_is_waited_for_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from roofexp.devices.cuda.device import CudaDevice
    from tests.fake_cuda import FakeGpu, FaultError, fake_cupy

    gpu = FakeGpu()
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(gpu))
    gpu.queue(1.0, gpu.fault)
    with pytest.raises(FaultError):
        CudaDevice.finish(SimpleNamespace())  # type: ignore[arg-type]


def test_a_copy_of_the_worker_takes_no_part() -> None:
    program, worker = ends()
    child = os.fork()
    if child == 0:
        worker.send(b"from a copy")
        os._exit(0)
    assert os.waitpid(child, 0)[1] >> 8 == 1
    assert not select.select([program._end], [], [], 0.0)[0]


def test_a_compilers_log_is_kept_whole_beside_one_line() -> None:
    class NoCompiler(LateDevice):
        def load(self, kernel, implementation: str, seed: int):
            raise CompileError("mine.cu: line 3: expected a ;", "line 3: expected a ;\nline 9: undefined: foo")

    request = Request(
        kernel=SimpleNamespace(), timing=SETTINGS, cold=True, seed=1, clock={"mode": "observe"}  # type: ignore[arg-type]
    )  # fmt: skip
    reply = Bench(NoCompiler()).run(request)
    assert (reply.status, reply.reason) == ("failed", "mine.cu: line 3: expected a ;")
    assert reply.detail
    assert "line 9: undefined: foo" in reply.detail  # run/job.py writes it to error.txt
