"""A kernel on the CPU: its operands as NumPy arrays, checked, launched and timed on the host clock."""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from roofexp.devices.base import (
    Expectation,
    check_result,
    check_result_after_timing,
    expectation,
    poison,
)
from roofexp.devices.operand_guard import Bands, check_bands, check_inputs, guarded
from roofexp.errors import BadInputError
from roofexp.kernel import Kernel, Operand
from roofexp.records.point import Check, Flag

CACHE_LINE_BYTES = 64
THREADS = Path("/proc/self/task")
LONGEST_SPIN_S = 0.02  # GNU's OpenMP spins for about 5 ms


class CpuKernel:
    """Operands as NumPy arrays, and the launch as a function of no arguments."""

    method = "host clock"

    def __init__(
        self,
        kernel: Kernel,
        implementation: str,
        operands: dict[str, Any],
        bands: list[Bands],
        launch: Callable[[], Any],
        flush: Callable[[], None],
        core_flags: Callable[[], tuple[Flag, ...]],
    ) -> None:
        self._kernel = kernel
        self._library = implementation == "numpy"
        self._operands = operands
        self._bands = bands
        self._inputs: dict[str, int] = {}
        self._expected: Expectation | None = None
        self.compile_s = 0.0  # with the first launch, in which numba compiles
        self._launch = launch
        self._flush = flush
        self._core_flags = core_flags
        self._first = {
            operand.name: operands[operand.name].copy() for operand in kernel.operands if operand.role == "inout"
        }

    @property
    def flags(self) -> tuple[Flag, ...]:
        return self._core_flags()

    def check(self) -> Check | None:
        import numpy

        kernel = self._kernel
        self._inputs = self._fingerprints()
        self._poison()
        with numpy.errstate(all="ignore"):
            expected = expectation(kernel, self._as_float64(kernel.operands), numpy) if kernel.references else None
        if expected:
            expected = expected._replace(values={name: self._own(value) for name, value in expected.values.items()})
        start_s = time.perf_counter()
        self._compile_and_launch()
        if not self._library:
            self.compile_s += time.perf_counter() - start_s
        if expected is None:
            return None
        with numpy.errstate(all="ignore"):
            check = check_result(kernel, expected, self._as_float64(kernel.outputs), numpy)
        self._expected = expected
        self.restore()
        self._poison()
        return check

    def check_after_timing(self) -> None:
        import numpy

        if self._expected and self._first:  # inout operands have run away from the reference
            self.restore()
            self._poison()
            self._launch()
        check_bands(self._bands)
        check_inputs(self._inputs, self._fingerprints())
        if self._expected:
            after = self._as_float64(self._kernel.outputs)
            with numpy.errstate(all="ignore"):
                check_result_after_timing(self._kernel, self._expected, after, numpy)

    def _poison(self) -> None:
        for operand in self._kernel.outputs:
            if operand.role == "out":
                poison(self._operands[operand.name])

    def _fingerprints(self) -> dict[str, int]:
        names = [operand.name for operand in self._kernel.operands if operand.role == "in"]
        return {name: zlib.crc32(self._operands[name].reshape(-1).view("uint8")) for name in names}

    def _as_float64(self, operands: Iterable[Operand]) -> dict[str, Any]:
        """Copies only where the type is another."""
        return {operand.name: self._operands[operand.name].astype("float64", copy=False) for operand in operands}

    def _own(self, value: Any) -> Any:
        """A reference that is an operand itself, as that of a copy, must not change with it."""
        import numpy

        shared = any(numpy.may_share_memory(value, operand) for operand in self._operands.values())
        return numpy.array(value) if shared else value

    def run_hot(self, launches: int) -> float:
        return seconds_per_launch(self._launch, launches) * launches

    def run_cold(self) -> float:
        self._flush()
        if self._library:
            wait_for_own_threads()
        return seconds_per_launch(self._launch, 1)

    def restore(self) -> None:
        for name, values in self._first.items():
            self._operands[name][...] = values

    def release(self) -> None:
        self._operands.clear()
        self._first.clear()
        self._bands.clear()
        self._expected = None

    def _compile_and_launch(self) -> None:
        """The first launch compiles; what numba says about code that it cannot compile is cut to its first line."""
        try:
            self._launch()
        except (BadInputError, MemoryError):
            raise
        except Exception as error:
            if not type(error).__module__.startswith("numba"):
                raise
            code = self._kernel.implementations["cpu"]
            name = code.get("function") or code.get("factory")
            raise BadInputError(f"{self._kernel.where}: {name} does not compile: {_first_reason(error)}") from error


def fill(array: Any, fill: str, generator: Any) -> None:
    """Random values of the operand's type, the outputs too: what they held must not matter."""
    if fill == "zeros":
        array[...] = 0  # touched, so that the pages are there and not shared
    elif fill == "uniform":
        generator.random(array.shape, dtype=array.dtype, out=array)
    else:
        generator.standard_normal(array.shape, dtype=array.dtype, out=array)


def allocate(operand: Operand) -> tuple[Any, Bands]:
    """An array that starts on a cache line: NumPy's own start anywhere, and vectors that straddle lines are slower."""
    import numpy

    memory, bands = guarded(
        operand.name, operand.bytes, CACHE_LINE_BYTES, lambda count: numpy.empty(count, numpy.uint8),
        lambda buffer: int(buffer.ctypes.data),
    )  # fmt: skip
    return memory.view(numpy.dtype(operand.storage)).reshape(operand.shape), bands


def bind_library_threads(cores: Sequence[int]) -> None:
    """Gives each thread that the library of NumPy started at its import a core of its own (Linux). OpenMP binds its
    threads and the calling one; a library thread that wakes on the core of its caller waits behind it for some ms."""
    import numpy  # noqa: F401  (its library starts its threads now)

    with contextlib.suppress(OSError, AttributeError):
        others = sorted(int(thread.name) for thread in THREADS.iterdir() if int(thread.name) != os.getpid())
        for thread, core in zip(others, cores[1:], strict=False):
            os.sched_setaffinity(thread, {core})


def wait_for_own_threads(longest_s: float = LONGEST_SPIN_S) -> None:
    """Until no other thread of this process runs. Those of a parallel loop spin for some milliseconds after their work,
    on the very cores that a library's own threads need next."""
    end = time.perf_counter() + longest_s
    while time.perf_counter() < end and _running_threads() > 1:
        time.sleep(0.0002)


def _running_threads() -> int:
    """How many threads of this process run or stand in line (Linux); elsewhere they are taken to run."""
    states = []
    with contextlib.suppress(OSError):
        for thread in THREADS.iterdir():
            with contextlib.suppress(OSError, IndexError):
                states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states.count("R") if states else 2


def seconds_per_launch(launch: Callable[[], Any], launches: int) -> float:
    start = time.perf_counter()
    for _ in range(launches):
        launch()
    return (time.perf_counter() - start) / launches


def _first_reason(error: Exception) -> str:
    """numba's own words about the cause, without the pages around them."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Failed in", "During:", "-", "[", "File ", "<source"))]
    place = next((line for line in lines if line.startswith("File ")), "")
    text = (telling or lines or [type(error).__name__])[0]
    return f"{text} ({place})" if place else text
