"""The CPU as a device: numba and NumPy kernels, timed on the host clock, one thread per physical core."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roofexp.config.paths import find_kernel_file
from roofexp.devices.base import (
    FEWER_CORES,
    FRACTIONAL_QUOTA,
)
from roofexp.devices.cpu.clock import CpuClockWatch
from roofexp.devices.cpu.kernel import (
    CACHE_LINE_BYTES,
    CpuKernel,
    allocate,
    bind_library_threads,
    fill,
    seconds_per_launch,
)
from roofexp.devices.cpu.machine import cores_in_use, describe_cpu, memory_free_bytes, usable_cores
from roofexp.devices.library_call import compile_call
from roofexp.devices.operand_guard import guard_bytes
from roofexp.errors import BadInputError, FailedError, SkippedError
from roofexp.kernel import Kernel
from roofexp.records.machine import Machine
from roofexp.records.point import Flag

IMPLEMENTATIONS = ("cpu", "numpy")
PLACE_TRIES = 3

TYPES = {"float64", "float32"}  # what numba and NumPy's BLAS compute in


class CpuDevice:
    """``cores`` limits the cores in use; libraries were told through the environment before they were imported."""

    kind = "cpu"

    def __init__(self, cores: int | None, kernel_roots: list[Path]) -> None:
        self._asked = cores
        self._roots = kernel_roots
        self.cores = cores_in_use(cores)  # asked before a library binds this thread to one of them
        self._usable = usable_cores()
        bind_library_threads(self.cores)
        self._flush: Callable[[], Any] | None = None

    def machine(self) -> Machine:
        return describe_cpu(self._asked)

    def choose(self, kernel: Kernel) -> str:
        reasons = []
        for name in IMPLEMENTATIONS:
            if name in kernel.implementations:
                reason = kernel.supports(name)
                if reason is None and kernel.storage not in TYPES:
                    reason = f"{kernel.precision} is not done on the CPU"
                if reason is None:
                    return name
                reasons.append(reason)
        raise SkippedError("; ".join(reasons) or f"{kernel.name} has no code for the CPU")

    def wake(self) -> None:
        """The check has kept the cores busy already."""

    def rest(self, most_s: float) -> None:
        """Cores idle as soon as nothing runs on them; their budget of boost takes a little longer to fill."""
        time.sleep(min(most_s, 1.0))

    def finish(self) -> None:
        """A call is over when it returns."""

    def identity(self) -> dict[str, str]:
        return {}

    def bytes_needed(self, kernel: Kernel) -> int:
        """Operands, first values of inout operands, float64 copies, the reference and one temporary of its size."""
        operands = sum(operand.bytes * (2 if operand.role == "inout" else 1) for operand in kernel.operands)
        operands += guard_bytes(len(kernel.operands), CACHE_LINE_BYTES)
        copies = sum(8 * operand.elements for operand in kernel.operands) if kernel.references else 0
        results = sum(16 * operand.elements for operand in kernel.outputs) if kernel.references else 0
        return operands + copies + results + (self.flush_bytes() or 0)

    def bytes_free(self) -> int:
        return memory_free_bytes()

    def load(self, kernel: Kernel, implementation: str, seed: int) -> CpuKernel:
        import numpy

        generator = numpy.random.default_rng(seed)
        operands, bands = {}, []
        for operand in kernel.operands:
            operands[operand.name], around = allocate(operand)
            fill(operands[operand.name], operand.fill, generator)
            bands.append(around)
        values = {**kernel.names, **operands}
        for name, scalar in kernel.scalars.items():
            values[name] = numpy.dtype(kernel.storage).type(scalar)
        start_s = time.perf_counter()
        if implementation == "numpy":
            where = f"{kernel.where}: numpy.call"
            launch = compile_call(kernel.implementations["numpy"]["call"], numpy, values, where)
        else:
            function = self._function(kernel)
            arguments = tuple(values[name] for name in kernel.argument_names("cpu"))

            def launch() -> Any:
                return function(*arguments)

        loaded = CpuKernel(kernel, implementation, operands, bands, launch, self.flush, self.core_flags)
        loaded.compile_s = time.perf_counter() - start_s
        return loaded

    def timer_floor_s(self, cold: bool) -> float:
        empty = self.load_function("roofs/empty.py:empty", "the launch floor")
        empty()
        times = []
        for _ in range(15):
            if cold:
                self.flush()
            times.append(seconds_per_launch(empty, 1 if cold else 100))
        return sorted(times)[len(times) // 2]

    def clock_watch(self, settings: dict[str, Any]) -> CpuClockWatch:
        return CpuClockWatch(lambda name: self.load_function(f"roofs/clock.py:{name}", "the clock"), len(self.cores))

    def flush_bytes(self) -> int | None:
        """Twice the last cache; unknown cache sizes leave nothing to go by."""
        sizes = self.machine().cache_bytes
        return 2 * max(sizes.values()) if sizes else None

    def flush(self) -> None:
        """Fills every core's caches with a buffer of its own."""
        if self._flush is None:
            import numpy

            size = self.flush_bytes()
            if size is None:
                raise SkippedError(
                    "cache sizes are unknown on this machine, so the caches cannot be flushed: cache=hot"
                )
            flush = self.load_function("roofs/flush.py:flush", "the cache flush")
            buffer, result = numpy.ones(size // 8), numpy.zeros(len(self.cores))
            self._flush = lambda: flush(buffer, result)
        self._flush()

    def core_flags(self) -> tuple[Flag, ...]:
        """What keeps the threads from as many whole cores as the machine's id stands for."""
        flags = [Flag(FRACTIONAL_QUOTA, self._usable.says)] if self._usable.says else []
        if sys.platform == "linux" and (text := self._misplaced()):
            flags.append(Flag(FEWER_CORES, text))
        return tuple(flags)

    def _misplaced(self) -> str | None:
        """None as soon as one try finds each thread on a core of its own."""
        ask = self.load_function("roofs/places.py:places", "the places of the threads")
        core_of: dict[int, int] = {}
        for core, cpus in self._usable.by_core.items():
            core_of |= dict.fromkeys(cpus, core)
        for _ in range(PLACE_TRIES):
            stood_on = {core_of.get(cpu, cpu) for cpu in ask(len(self.cores))}
            if len(stood_on) == len(self.cores):
                return None
        return f"the {len(self.cores)} threads stand on {len(stood_on)} core{'s' if len(stood_on) > 1 else ''}"

    def explain(self, error: Exception) -> FailedError | None:
        return None

    def close(self) -> None:
        self._flush = None

    def _function(self, kernel: Kernel) -> Callable[..., Any]:
        import numpy

        code = kernel.implementations["cpu"]
        if code.get("function"):
            return self.load_function(code["function"], f"{kernel.where}: cpu.function")
        if not code.get("factory"):
            raise BadInputError(f"{kernel.where}: cpu: function or factory must name the code, like file.py:name")
        build = self.load_function(code["factory"], f"{kernel.where}: cpu.factory")
        function: Callable[..., Any] = build(numpy.dtype(kernel.storage), dict(kernel.params), len(self.cores))
        return function

    def load_function(self, name: str, where: str) -> Callable[..., Any]:
        """``file.py:function`` from the kernel folders."""
        file_name, _, function_name = name.partition(":")
        if not function_name:
            raise BadInputError(f"{where}: {name!r}; write it like stream/saxpy.py:saxpy")
        file = find_kernel_file(file_name, self._roots, where)
        module = _import_file(file, where)
        function = getattr(module, function_name, None)
        made_in = getattr(getattr(function, "py_func", function), "__module__", None)
        if not callable(function) or made_in != module.__name__:  # what it imports is not its own
            raise BadInputError(f"{where}: {file_name} has no function {function_name!r}")
        found: Callable[..., Any] = function
        return found


def _import_file(file: Path, where: str) -> Any:
    """The module in ``file``, imported once per process; files beside it can be imported by it."""
    name = "roofexp_kernels_" + "_".join(file.with_suffix("").parts[-2:])
    if name in sys.modules and sys.modules[name].__file__ == str(file):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadInputError(f"{where}: {file.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[name]
        raise BadInputError(f"{where}: {file.name}({error.lineno}): {error.msg}") from error
    except Exception as error:
        with contextlib.suppress(KeyError):
            del sys.modules[name]
        raise BadInputError(f"{where}: {file.name} cannot be imported: {error}") from error
    return module
