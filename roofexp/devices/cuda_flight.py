"""Batches on a stream queued ahead of each other, so that the GPU never waits for the host between two of them.

Nothing here waits for the whole stream: a batch is looked at when its own last event has passed, while those after it
run. The marks of the SMs' clocks come to the host by an asynchronous copy that belongs to the batch.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from roofexp.devices.cuda_stopwatch import CudaStopwatch, Launch

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
