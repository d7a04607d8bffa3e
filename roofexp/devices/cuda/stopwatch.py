"""Times on the GPU by CUDA events, with the host kept out.

A gate kernel holds the stream while everything is queued, so that no launch waits for the host; many short launches
are replayed as one graph. Around the timed part, outside it, every SM notes its cycle counter and the time: their
quotient is the clock that was really held.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

from roofexp.devices.cuda.code import load_module

GATE_TIMEOUT_NS = 2_000_000_000  # the gate opens by itself: a queue that never gets there must not hang the GPU
MARKS = 512  # pairs of marks kept before they are read back
CLOCK_BLOCKS_PER_SM = 4
WAKE_READINGS, WAKE_FLUSHES = 200, 100  # about 5 ms each
CALIBRATIONS = 40
Launch = Callable[[], Any]


class CudaStopwatch:
    """One per device; all launches go to its stream."""

    def __init__(
        self,
        sms: int,
        l2_bytes: int,
        roots: list[Path],
        arch: str,
        cache: Path | None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        import cupy
        import numpy

        self._now = now
        self.queueing_s = 0.0  # that the host took to queue what was timed last
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.sms, self._sms = sms, numpy.int64(sms)
        load = load_module("roofs/timing.cu", arch, {}, roots, cache, "the stopwatch")
        self._gate, self._mark = load.get_function("gate"), load.get_function("mark_clock")
        self._sweep, self._empty = load.get_function("sweep_cache"), load.get_function("empty")
        memory = cupy.cuda.alloc_pinned_memory(4)
        self._released = numpy.frombuffer(memory, numpy.int32, 1)
        self._released_address = numpy.uint64(memory.ptr)
        self._marks = cupy.zeros((MARKS, 2, sms, 2), cupy.uint64)
        self._used = 0
        self._cycles, self._seconds = 0.0, 0.0
        self._lap = 0.0, 0.0
        self._flush_buffer = cupy.zeros(2 * l2_bytes // 4, cupy.float32)
        self._sink = cupy.zeros(1, cupy.float32)
        self._events = cupy.cuda.Event(), cupy.cuda.Event()
        self.own_s = 0.0  # that two events show with nothing between them; see calibrate

    def seconds(self, queue: Launch, flush: bool = False) -> float:
        """What ``queue`` puts on the stream takes on the GPU, from its first start to its last end."""
        start, end = self._events
        with self.stream:
            if flush:
                self.flush()
            self._close_gate()
            before = self._slot()
            self._note(before, 0)
            start.record(self.stream)
            began_s = self._now()
            queue()
            self.queueing_s = self._now() - began_s
            end.record(self.stream)
            self._note(before, 1)
            self._released[0] = 1
        end.synchronize()
        import cupy

        elapsed_s = float(cupy.cuda.get_elapsed_time(start, end)) * 1e-3
        return max(elapsed_s - self.own_s, 0.0)

    def calibrate(self) -> None:
        """What two events show with nothing between them is the stopwatch's own, and is taken off every time from now
        on: 1.28 us on an H200, which is how far an event time stands above the profiler's duration of a kernel."""
        self.own_s = 0.0
        times = sorted(self.seconds(lambda: None, flush=index % 2 == 0) for index in range(CALIBRATIONS))
        self.own_s = times[len(times) // 2]

    def flush(self) -> None:
        """Reads twice the size of L2: whatever was in it is gone, and nothing is left that must be written back."""
        import numpy

        count = numpy.int64(self._flush_buffer.size // 4)
        self._sweep((self._sms * 8,), (256,), (self._flush_buffer, count, self._sink))

    def graph(self, launch: Launch, launches: int) -> Launch:
        """``launches`` launches captured as one graph."""
        import cupy

        with self.stream:
            self.stream.begin_capture(cupy.cuda.runtime.streamCaptureModeThreadLocal)
            try:
                for _ in range(launches):
                    launch()
            finally:
                captured = self.stream.end_capture()
            captured.upload(self.stream)
        self.stream.synchronize()
        return lambda: captured.launch(self.stream)

    def renew_stream(self) -> None:
        """A stream on which a capture failed cannot be used again."""
        import cupy

        self.stream = cupy.cuda.Stream(non_blocking=True)

    def empty_launch(self) -> None:
        self._empty((1,), (32,), ())

    def reset_clock(self) -> None:
        """Forgets what was marked; the clock of a new timed part begins."""
        self._used, self._cycles, self._seconds = 0, 0.0, 0.0
        self._lap = 0.0, 0.0

    def clock_hz(self) -> float | None:
        """Cycles over seconds of all timed parts since the last reset, the mean of the SMs."""
        self._read_marks()
        return self._cycles / self._seconds if self._seconds else None

    def lap_hz(self) -> float | None:
        """Cycles over seconds of the timed parts since the last lap or reset."""
        self._read_marks()
        cycles, seconds = self._cycles - self._lap[0], self._seconds - self._lap[1]
        self._lap = self._cycles, self._seconds
        return cycles / seconds if seconds else None

    def wake(self) -> None:
        """Work until the clock is steady: an idle GPU takes up to a second to raise it."""
        readings: list[float] = []
        for _ in range(WAKE_READINGS):
            self.reset_clock()
            self.seconds(self._flush_often)
            readings = [*readings[-2:], self.clock_hz() or 0.0]
            if len(readings) == 3 and max(readings) <= 1.01 * min(readings):
                break
        self.reset_clock()

    def _flush_often(self) -> None:
        for _ in range(WAKE_FLUSHES):
            self.flush()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """What is queued inside starts at its end, and no later than the gate's own time."""
        with self.stream:
            self._close_gate()
        try:
            yield
        finally:
            self._released[0] = 1

    def mark(self, marks: Any) -> None:
        """Puts on the current stream: every SM notes its cycles and the time in ``marks`` (SM, 2)."""
        self._mark((self.sms * CLOCK_BLOCKS_PER_SM,), (32,), (marks, self._sms))

    def add_marks(self, marks: Any) -> None:
        """Pairs of marks as ``summed_marks`` takes them, to the timed parts since the last reset."""
        cycles, seconds = summed_marks(marks)
        self._cycles += cycles
        self._seconds += seconds

    def _close_gate(self) -> None:
        import numpy

        self._released[0] = 0
        self._gate((1,), (1,), (self._released_address, numpy.int64(GATE_TIMEOUT_NS)))

    def _slot(self) -> int:
        if self._used == MARKS:
            self.stream.synchronize()
            self._read_marks()
        self._used += 1
        return self._used - 1

    def _note(self, slot: int, side: int) -> None:
        self.mark(self._marks[slot, side])

    def _read_marks(self) -> None:
        if self._used:
            marks = self._marks[: self._used].get(stream=self.stream).astype("int64")
            self.stream.synchronize()
            self.add_marks(marks)
            with self.stream:  # on another stream it could come after the next mark
                self._marks.fill(0)
            self._used = 0


def summed_marks(marks: Any) -> tuple[float, float]:
    """Cycles and seconds over all pairs of marks (pair, before/after, SM, cycles/nanoseconds) in which an SM was met
    on both sides; an SM that no block ran on left zeros."""
    before, after = marks[:, 0], marks[:, 1]
    met = (before[..., 1] > 0) & (after[..., 1] > before[..., 1]) & (after[..., 0] > before[..., 0])
    difference = (after - before)[met]
    if not len(difference):
        return 0.0, 0.0
    return float(difference[:, 0].sum()), float(difference[:, 1].sum()) * 1e-9


MOST_AHEAD = 8  # batches in flight; how many of them are wanted is the caller's to say


class Batch:
    """Events of one batch in flight, the marks before and after it on the GPU, and the host's copy of them."""

    def __init__(self, sms: int, stream: Any) -> None:
        import cupy
        import numpy

        self.start, self.end, self.done = (cupy.cuda.Event() for _ in range(3))
        with stream:
            self.marks = cupy.zeros((2, sms, 2), cupy.uint64)
        self._memory = cupy.cuda.alloc_pinned_memory(self.marks.nbytes)
        self._host = numpy.frombuffer(self._memory, numpy.uint64, 4 * sms).reshape(1, 2, sms, 2)

    def fetch_marks(self, stream: Any) -> None:
        """Puts on the stream: the marks go to the host, and are zeros for the next batch."""
        import cupy

        runtime = cupy.cuda.runtime
        count, address = self.marks.nbytes, self.marks.data.ptr
        runtime.memcpyAsync(self._memory.ptr, address, count, runtime.memcpyDeviceToHost, stream.ptr)
        runtime.memsetAsync(address, 0, count, stream.ptr)

    def wait(self) -> tuple[float, Any]:
        """Seconds of the batch, once it is over, and its marks (one pair) as ``summed_marks`` takes them."""
        import cupy

        self.done.synchronize()
        return float(cupy.cuda.get_elapsed_time(self.start, self.end)) * 1e-3, self._host.astype("int64")


class Flight:
    """The batches in flight, oldest first. ``queue`` puts one on the stream, ``renew`` what goes ahead of every
    ``renew_every``-th and is not timed."""

    def __init__(self, watch: CudaStopwatch, queue: Launch, renew: Launch, renew_every: int) -> None:
        import cupy

        self._watch, self._queue, self._renew, self._renew_every = watch, queue, renew, renew_every
        self._first = cupy.cuda.Event()
        self._free = [Batch(watch.sms, watch.stream) for _ in range(MOST_AHEAD)]
        self._flying: deque[Batch] = deque()
        self._queued = 0

    def fill(self, more: Callable[[int], bool], most: int = MOST_AHEAD) -> None:
        while len(self._flying) < most and more(len(self._flying)):
            self._send(self._free.pop())

    def land(self) -> tuple[float, float]:
        """When the oldest batch began, since the first one's beginning, and its seconds: once it is over."""
        import cupy

        batch = self._flying.popleft()
        seconds, marks = batch.wait()
        began_s = float(cupy.cuda.get_elapsed_time(self._first, batch.start)) * 1e-3
        self._watch.add_marks(marks)
        self._free.append(batch)
        return began_s, seconds

    def __len__(self) -> int:
        return len(self._flying)

    def _send(self, batch: Batch) -> None:
        watch, stream = self._watch, self._watch.stream
        with stream:
            if self._queued and self._queued % self._renew_every == 0:
                self._renew()
            watch.mark(batch.marks[0])
            if not self._queued:
                self._first.record(stream)
            batch.start.record(stream)
            self._queue()
            batch.end.record(stream)
            watch.mark(batch.marks[1])
            batch.fetch_marks(stream)
            batch.done.record(stream)
        self._queued += 1
        self._flying.append(batch)


def back_to_back(
    watch: CudaStopwatch, queue: Launch, more: Callable[[int], bool], renew: Launch, renew_every: int
) -> Generator[tuple[float, float], None, None]:
    """When each batch began, in seconds from the first one's beginning, and the seconds that it took.

    ``more`` is asked before each batch with the number of those in flight. A fault in a batch is raised where it is
    waited for. However it ends, nothing is left on the stream.
    """
    flight = Flight(watch, queue, renew, renew_every)
    try:
        with watch.held():  # one batch only: a queue that is full behind the gate would hold the host
            flight.fill(more, 1)
        flight.fill(more)
        while len(flight):
            landed = flight.land()
            flight.fill(more)  # before the caller takes its time
            yield landed
    finally:
        with contextlib.suppress(Exception):  # after a fault the stream refuses; its error is on the way already
            watch.stream.synchronize()
