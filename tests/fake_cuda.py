"""A GPU with one stream on a clock of its own, as much of CuPy as the stopwatch uses: work queued by the host is done
in order, later, and what it leaves is there only once its time has come."""

from __future__ import annotations

import ctypes
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy

HOST_S = 5e-6  # to queue one thing
MARK_S = 3e-6
SM_HZ = 1.5e9


class FaultError(Exception):
    """What CUDA says about a kernel that broke the context."""


class FakeGpu:
    def __init__(self) -> None:
        self.host_s = self.gpu_s = 0.0
        self.broken = False
        self.events: dict[int, float] = {}
        self.stream = FakeStream(self)

    def now(self) -> float:
        return self.host_s

    def queue(self, seconds: float, effect: Callable[[], None] = lambda: None, gate: Any = None) -> None:
        if self.broken:
            raise FaultError
        self.host_s += HOST_S
        self.stream.waiting.append((self.host_s, seconds, effect, gate))
        self.run()

    def run(self, until_s: float | None = None) -> None:
        """What is over by the host's time."""
        until_s = self.host_s if until_s is None else until_s
        while self.stream.waiting and not self.broken:
            queued_s, seconds, effect, gate = self.stream.waiting[0]
            if gate is not None and gate[0] == 0:
                return
            end_s = max(self.gpu_s, queued_s, self.host_s if gate is not None else 0.0) + seconds
            if end_s > until_s:
                return
            self.gpu_s = end_s
            self.stream.waiting.popleft()
            effect()

    def wait(self, over: Callable[[], bool]) -> None:
        self.run()
        while not over():
            if self.broken:
                raise FaultError
            queued_s, seconds, _, gate = self.stream.waiting[0]
            assert gate is None or gate[0], "the host waits behind a gate that only it can open"
            self.host_s = max(self.host_s, max(self.gpu_s, queued_s) + seconds)
            self.run()
        if self.broken:
            raise FaultError

    def fault(self) -> None:
        self.broken = True


class FakeStream:
    ptr = 1

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.waiting: deque[Any] = deque()

    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...

    def synchronize(self) -> None:
        self.gpu.wait(lambda: not self.waiting)


class FakeEvent:
    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.at_s: float | None = None

    def record(self, stream: FakeStream) -> None:
        self.at_s = None

        def note() -> None:
            self.at_s = self.gpu.gpu_s

        self.gpu.queue(0.0, note)

    def synchronize(self) -> None:
        self.gpu.wait(lambda: self.at_s is not None)


class FakeArray(numpy.ndarray):
    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(ptr=self.ctypes.data)

    def get(self, stream: FakeStream) -> Any:
        stream.synchronize()
        return numpy.array(self)


class Pinned(bytearray):
    @property
    def ptr(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self))


def fake_cupy(gpu: FakeGpu) -> Any:
    def elapsed_ms(start: FakeEvent, end: FakeEvent) -> float:
        assert start.at_s is not None, "an event that has not happened"
        assert end.at_s is not None, "an event that has not happened"
        return (end.at_s - start.at_s) * 1e3

    def copy(target: int, source: int, count: int, kind: int, stream: int) -> None:
        gpu.queue(2e-6, lambda: ctypes.memmove(target, source, count) and None)

    runtime = types.SimpleNamespace(
        memcpyDeviceToHost=2,
        deviceSynchronize=gpu.stream.synchronize,
        memcpyAsync=copy,
        memsetAsync=lambda at, value, count, stream: gpu.queue(1e-6, lambda: ctypes.memset(at, value, count) and None),
    )
    cuda = types.SimpleNamespace(
        Stream=lambda non_blocking: gpu.stream, Event=lambda: FakeEvent(gpu), get_elapsed_time=elapsed_ms,
        alloc_pinned_memory=Pinned, runtime=runtime,
    )  # fmt: skip
    zeros = lambda shape, kind: numpy.zeros(shape, kind).view(FakeArray)  # noqa: E731
    return types.SimpleNamespace(
        cuda=cuda, zeros=zeros, uint64=numpy.uint64, float32=numpy.float32, __name__="cupy"
    )  # fmt: skip


def fake_timing_code(gpu: FakeGpu, released: Callable[[], Any]) -> Any:
    """The kernels of timing.cu."""

    def mark(blocks: Any, threads: Any, arguments: Any) -> None:
        marks = arguments[0]

        def note() -> None:
            marks[:, 0] = round(1e9 + gpu.gpu_s * SM_HZ)
            marks[:, 1] = round(1e9 + gpu.gpu_s * 1e9)

        gpu.queue(MARK_S, note)

    kernels = {
        "gate": lambda blocks, threads, arguments: gpu.queue(0.0, gate=released()),
        "mark_clock": mark,
        "sweep_cache": lambda *arguments: gpu.queue(1e-5),
        "empty": lambda *arguments: gpu.queue(1e-6),
    }
    return types.SimpleNamespace(get_function=kernels.__getitem__)
