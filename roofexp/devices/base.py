"""What a device must do to be measured. Nothing here, and nothing that uses it, knows which device it is.

Devices live in the worker process only. A method that finds the device unusable raises; the worker is then replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from roofexp.errors import FailedError
from roofexp.kernel import Kernel, Operand, error_scales, reference_values
from roofexp.records.machine import Machine
from roofexp.records.point import Check, Clock, Flag

FEWER_CORES, FRACTIONAL_QUOTA = "fewer cores than threads", "fractional quota"  # flags of points on the CPU


class ClockWatch(Protocol):
    """Reads the clock that the compute units really held over the timed part, and what else is sampled beside it."""

    def start(self) -> None: ...

    def lap(self) -> None:
        """During a soak: notes the clock held since the last lap in a row of its own."""
        ...

    def stop(self) -> Clock: ...

    def rows(self) -> list[dict[str, float | str | None]]:
        """The samples taken beside the timing, one dict each, unit in every key: clocks.csv of the point."""
        ...


@runtime_checkable
class Streamed(Protocol):
    """What a loaded kernel has besides, on a device that can be given a batch while it works on another."""

    def stream_hot(
        self, launches: int, more: Callable[[int], bool], renew_every: int
    ) -> Generator[tuple[float, float], None, None] | None:
        """Batches of ``launches`` launches, queued ahead so that the device never idles between two: when each began
        (s, from the first one's beginning) and the seconds it took. ``more``, asked with the number of batches in
        flight, says whether one more is queued. Inout operands are renewed before every ``renew_every``-th batch,
        outside the timed part. None where this kernel's launches cannot be queued fast enough."""
        ...


class LoadedKernel(Protocol):
    """A kernel compiled, with its operands in the device's memory, ready to be launched."""

    @property
    def method(self) -> str:
        """How times are taken, for the record: "perf_counter", "graph of 100, events", ..."""
        ...

    compile_s: float  # that building its code took, once it was checked; without filling operands

    @property
    def flags(self) -> Sequence[Flag]:
        """What a reader must know of how the kernel was launched, once it was timed."""
        ...

    def check(self) -> Check | None:
        """Poisons the outputs, launches once on fresh random data and compares with the float64 reference.

        None where the kernel has no reference. Raises FailedError("wrong result", ...) beyond the tolerance,
        for NaN, and for output left unwritten. Afterwards inputs are as new and outputs poisoned again: timed launches
        must write them.
        """
        ...

    def check_after_timing(self) -> None:
        """Raises FailedError where a launch wrote outside its operands or into one of role in, naming the operand, and
        for a result that is no longer right: that of the timed launches themselves where they leave one, else that of
        one more launch. Held against the reference of ``check``."""
        ...

    def run_hot(self, launches: int) -> float:
        """Seconds that ``launches`` launches took, back to back, launch overhead of the host kept out where the
        device allows it."""
        ...

    def run_cold(self) -> float:
        """Seconds of one launch after the caches were flushed; the flush is outside the timed part."""
        ...

    def restore(self) -> None:
        """Gives inout operands their first values again, so that repeated launches do not run away."""
        ...

    def release(self) -> None:
        """Frees the operands' memory."""
        ...


class Device(Protocol):
    kind: str  # cpu or cuda

    def machine(self) -> Machine: ...

    def choose(self, kernel: Kernel) -> str:
        """The implementation to run: one of kernel.implementations. Raises SkippedError with the reason where the
        device, its libraries or the code cannot do this kernel in this precision."""
        ...

    def bytes_needed(self, kernel: Kernel) -> int:
        """Memory that checking and timing will take, references included."""
        ...

    def bytes_free(self) -> int: ...

    def load(self, kernel: Kernel, implementation: str, seed: int) -> LoadedKernel:
        """Compiles the kernel and fills its operands. Raises BadInputError for code that is missing or does not
        compile, naming file and line."""
        ...

    def wake(self) -> None:
        """Brings an idle device to its working clock; called between the check and the warm-up."""
        ...

    def rest(self, most_s: float) -> None:
        """Waits until the device is idle, at most so long; called before a soak."""
        ...

    def timer_floor_s(self, cold: bool) -> float:
        """What an empty launch measures as, taken in the same way as the kernel's time."""
        ...

    def clock_watch(self, settings: dict[str, Any]) -> ClockWatch:
        """``settings`` is the clock group of the configuration."""
        ...

    def finish(self) -> None:
        """Waits for all that was started on the device, by whatever stream. Raises an error that it reports late."""
        ...

    def identity(self) -> dict[str, str]:
        """What a driver's library finds the device by: ``uuid`` and ``bus_id`` of a GPU. Never written to a record."""
        ...

    def explain(self, error: Exception) -> FailedError | None:
        """What an exception of this device's own kind means; None for any other."""
        ...

    def flush_bytes(self) -> int | None:
        """Size of the buffer that flushes the caches; None when the cache sizes are unknown."""
        ...

    def close(self) -> None: ...


SLICE = 1 << 18  # elements that are compared at once on a CPU


def poison(array: Any) -> None:
    """Fills an output so that an element left unwritten cannot pass: NaN, or the type's lowest value."""
    array.fill(math.nan if array.dtype.kind == "f" else -128)


class Expectation(NamedTuple):
    """What the outputs must be, and what deviations from it are measured against."""

    values: dict[str, Any]
    scales: dict[str, float]


def expectation(kernel: Kernel, before: Mapping[str, Any], numeric: Any) -> Expectation:
    """``before`` are the operands as float64 before the launch."""
    values = reference_values(kernel, before, numeric)
    return Expectation(values, error_scales(kernel, before, values, numeric))


def check_result(kernel: Kernel, expected: Expectation, after: Mapping[str, Any], numeric: Any) -> Check:
    """``after`` are the outputs as float64 after the launch.

    Raises FailedError beyond the tolerance, naming the worst output and its error norm.
    """
    worst = 0.0
    for name, wanted in expected.values.items():
        operand = kernel.operand(name)
        assert operand
        worst = max(worst, _error(kernel, operand, after[name], wanted, expected.scales[name], numeric))
    return Check(error=worst, tolerance=kernel.tolerance)


def check_result_after_timing(kernel: Kernel, expected: Expectation, after: Mapping[str, Any], numeric: Any) -> None:
    """As ``check_result``; the FailedError says that the first launch was right."""
    try:
        check_result(kernel, expected, after, numeric)
    except FailedError as error:
        raise FailedError(error.kind, f"right at the first launch, wrong after the timing: {error}") from error


def _error(kernel: Kernel, operand: Operand, found: Any, wanted: Any, scale: float, numeric: Any) -> float:
    wanted = numeric.asarray(wanted, dtype=numeric.float64)
    if wanted.size == 1 or wanted.shape != operand.shape:
        wanted = numeric.broadcast_to(wanted.reshape(wanted.shape if wanted.size > 1 else ()), operand.shape)
    unwritten, largest = _deviation(found, wanted, numeric)
    if unwritten:
        raise FailedError(
            "wrong result",
            f"{unwritten} of {operand.elements} elements of {operand.name} are NaN or were left unwritten",
        )
    error = largest / (scale or 1.0)
    if not error <= kernel.tolerance:
        raise FailedError(
            "wrong result",
            f"{operand.name} is off by {error:.3g} of the result's scale; allowed for {kernel.precision}: "
            f"{kernel.tolerance:.3g}",
        )
    return error


def _deviation(found: Any, wanted: Any, numeric: Any) -> tuple[int, float]:
    """How many elements are NaN, and the largest deviation. On a CPU in slices that stay in its caches: memory that
    the system hands out anew costs more than all the arithmetic."""
    sliced = numeric.__name__ == "numpy" and found.ndim > 0
    rows = max(1, SLICE * len(found) // found.size) if sliced else 1
    parts = [slice(first, first + rows) for first in range(0, len(found), rows)] if sliced else [...]
    unwritten, largest = 0, 0.0
    for part in parts:
        difference = numeric.abs(found[part] - wanted[part])
        unwritten += int(numeric.isnan(difference).sum())
        largest = max(largest, float(difference.max()))
    return unwritten, largest
