"""The NVIDIA GPU as a device, on CuPy. Lives in the worker process."""

from __future__ import annotations

import gc
import importlib.util
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from roofexp.devices.base import Expectation, check_result, check_result_after_timing, expectation
from roofexp.devices.cuda.code import build_launch, compile_cache, least_capability
from roofexp.devices.cuda.machine import (
    CudaClockWatch,
    architecture,
    bus_id,
    describe_gpu,
    explain_fault,
    gpu_uuid,
    open_nvml,
    profile_launch,
)
from roofexp.devices.cuda.operands import (
    ALIGNMENT_BYTES,
    allocate,
    build_call,
    fill_array,
    fingerprint,
    poison_array,
    to_float64,
    why_no_call,
)
from roofexp.devices.cuda.stopwatch import CudaStopwatch, back_to_back
from roofexp.devices.operand_guard import Bands, check_bands, check_inputs, guard_bytes
from roofexp.errors import FailedError, SkippedError
from roofexp.kernel import Kernel
from roofexp.records.machine import Machine
from roofexp.records.point import Check, Flag
from roofexp.text.numbers import engineering

IMPLEMENTATIONS = ("cuda", "cupy", "torch")
MOST_QUEUEING = 0.5  # of the time of launches: where the host takes longer to queue them, it is kept out by the gate
RESERVE_BYTES = 512 * 1024**2  # what the context and libraries take beside arrays


class CudaDevice:
    """``index`` counts the visible GPUs as CUDA does."""

    kind = "cuda"

    def __init__(self, index: int, kernel_roots: list[Path]) -> None:
        import cupy

        cupy.cuda.Device(index).use()
        self._index = index
        self._roots = kernel_roots
        self._cache = compile_cache()
        self._nvml = open_nvml(index)
        self._machine = describe_gpu(index, self._nvml)
        number = architecture(index).replace(".", "")
        self._arch = f"sm_{number}"
        self._capability = int(number)
        self.stopwatch = CudaStopwatch(
            self._machine.units or 1, self._machine.cache_bytes["l2"], kernel_roots, self._arch, self._cache
        )

    def machine(self) -> Machine:
        return self._machine

    def choose(self, kernel: Kernel) -> str:
        reasons = []
        for name in IMPLEMENTATIONS:
            if name in kernel.implementations:
                reason = kernel.supports(name) or self._why_not(kernel, name)
                if reason is None:
                    return name
                reasons.append(reason)
        raise SkippedError("; ".join(reasons) or f"{kernel.name} has no code for the GPU")

    def _why_not(self, kernel: Kernel, implementation: str) -> str | None:
        if implementation == "torch" and importlib.util.find_spec("torch") is None:
            return f"{kernel.name} is a PyTorch call, and PyTorch is not installed (the torch extra)"
        if implementation != "cuda":
            return why_no_call(kernel, implementation)
        code = kernel.implementations["cuda"]
        least, only = least_capability(kernel), code.get("arch")
        if self._capability < least:
            return f"{kernel.name} in {kernel.precision} needs compute capability {least / 10:.1f} or newer"
        if only and only.rstrip("af") != self._arch:
            return f"{kernel.name} is written for {only}, this GPU is {self._arch}"
        return None

    def wake(self) -> None:
        self.stopwatch.wake()

    def rest(self, most_s: float) -> None:
        if self._nvml:
            self._nvml.wait_until_idle(most_s)

    def finish(self) -> None:
        """A fault in another stream, or a late one, would otherwise be blamed on the next point."""
        import cupy

        cupy.cuda.runtime.deviceSynchronize()

    def identity(self) -> dict[str, str]:
        return {"uuid": gpu_uuid(self._index), "bus_id": bus_id(self._index)}

    def bytes_needed(self, kernel: Kernel) -> int:
        """Operands (inout ones twice), float64 copies, references and their temporaries, the flush buffer."""
        operands = sum(operand.bytes * (2 if operand.role == "inout" else 1) for operand in kernel.operands)
        operands += guard_bytes(len(kernel.operands), ALIGNMENT_BYTES)
        widest = max((8 * operand.elements for operand in kernel.operands), default=0)
        copies = sum(8 * operand.elements for operand in kernel.operands) if kernel.references else 0
        results = sum(16 * operand.elements for operand in kernel.outputs) if kernel.references else 0
        return operands + copies + results + 2 * widest + RESERVE_BYTES

    def bytes_free(self) -> int:
        import cupy

        return int(cupy.cuda.runtime.memGetInfo()[0]) + int(cupy.get_default_memory_pool().free_bytes())

    def load(self, kernel: Kernel, implementation: str, seed: int) -> CudaKernel:
        import cupy

        generator = cupy.random.default_rng(seed)
        operands, bands = {}, []
        for operand in kernel.operands:
            operands[operand.name], around = allocate(operand)
            operands[operand.name][...] = fill_array(operand, generator)
            bands.append(around)
        start_s = time.perf_counter()
        if implementation == "cuda":
            sms = self._machine.units or 1
            launch = build_launch(kernel, operands, self._arch, sms, self._roots, self._cache)
        else:
            launch = build_call(kernel, implementation, operands, lambda: self.stopwatch.stream)
        compile_s = time.perf_counter() - start_s
        cupy.cuda.runtime.deviceSynchronize()
        loaded = CudaKernel(kernel, implementation, operands, bands, launch, self.stopwatch)
        loaded.compile_s = compile_s
        return loaded

    def timer_floor_s(self, cold: bool) -> float:
        watch = self.stopwatch
        if not watch.own_s:
            watch.calibrate()
        if cold:
            times = [watch.seconds(watch.empty_launch, flush=True) for _ in range(30)]
        else:
            replay = watch.graph(watch.empty_launch, 200)
            times = [watch.seconds(replay) / 200 for _ in range(15)]
        return sorted(times)[len(times) // 2]

    def clock_watch(self, settings: dict[str, Any]) -> CudaClockWatch:
        return CudaClockWatch(self.stopwatch, self._nvml, settings)

    def flush_bytes(self) -> int | None:
        return 2 * self._machine.cache_bytes["l2"]

    def explain(self, error: Exception) -> FailedError | None:
        return explain_fault(error)

    def close(self) -> None:
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()


class CudaKernel:
    """Operands in the GPU's memory and the launch on the stopwatch's stream."""

    def __init__(
        self,
        kernel: Kernel,
        implementation: str,
        operands: dict[str, Any],
        bands: list[Bands],
        launch: Callable[[], Any],
        stopwatch: CudaStopwatch,
    ) -> None:
        self._kernel = kernel
        self._bands = bands
        self._inputs: dict[str, int] = {}
        self._expected: Expectation | None = None
        self._torch = implementation == "torch"
        self._operands = operands
        self._launch = launch
        self._watch = stopwatch
        self._graphs: dict[int, Callable[[], Any]] = {}
        self._no_graph: str | None = None
        self.compile_s = 0.0
        self._host_keeps_up = True
        self._first = {
            operand.name: operands[operand.name].copy() for operand in kernel.operands if operand.role == "inout"
        }

    @property
    def method(self) -> str:
        own = f", less {engineering(self._watch.own_s, 's')} of the events themselves" if self._watch.own_s else ""
        return f"{'events around a graph' if self._graphs else 'events'}{own}"

    @property
    def flags(self) -> list[Flag]:
        """What a reader must know of how this kernel was launched."""
        if self._no_graph is None:
            return []
        return [Flag("no graph", f"launched one by one, at the cost of a launch each: {self._no_graph}")]

    def check(self) -> Check | None:
        import cupy

        kernel = self._kernel
        self._inputs = self._fingerprints()
        self._poison()
        before = self._as_float64([operand.name for operand in kernel.operands]) if kernel.references else {}
        self._launch_alone()
        if not kernel.references:
            return None
        after = self._as_float64([operand.name for operand in kernel.outputs])
        expected = expectation(kernel, before, cupy)
        check = check_result(kernel, expected, after, cupy)
        self._expected = expected  # of the size of the outputs: ``bytes_needed`` has room for it
        del before, after
        self.restore()
        self._poison()
        cupy.cuda.runtime.deviceSynchronize()
        cupy.get_default_memory_pool().free_all_blocks()
        return check

    def check_after_timing(self) -> None:
        import cupy

        if self._expected and (self._first or self._torch):  # no timed launch leaves what the reference is of
            self.restore()
            self._poison()
            self._launch_alone()
        cupy.cuda.runtime.deviceSynchronize()
        check_bands(self._bands, lambda memory: memory.get())
        check_inputs(self._inputs, self._fingerprints())
        if self._expected:
            after = self._as_float64([operand.name for operand in self._kernel.outputs])
            check_result_after_timing(self._kernel, self._expected, after, cupy)

    def _launch_alone(self) -> None:
        """One launch, and its result in the output operand."""
        import cupy

        cupy.cuda.runtime.deviceSynchronize()
        with self._watch.stream:
            result = self._launch()
        self._watch.stream.synchronize()
        if self._kernel.references:
            self._take_result(result)

    def _poison(self) -> None:
        for operand in self._kernel.outputs:
            if operand.role == "out":
                poison_array(self._operands[operand.name], operand.storage)

    def _fingerprints(self) -> dict[str, int]:
        names = [operand.name for operand in self._kernel.operands if operand.role == "in"]
        return {name: fingerprint(self._operands[name]) for name in names}

    def run_hot(self, launches: int) -> float:
        seconds = self._watch.seconds(self._queue(launches))
        self._host_keeps_up = self._watch.queueing_s <= MOST_QUEUEING * seconds
        return seconds

    def stream_hot(
        self, launches: int, more: Callable[[int], bool], renew_every: int
    ) -> Generator[tuple[float, float], None, None] | None:
        queue = self._queue(launches)
        if not self._host_keeps_up:
            return None  # without the gate the launches themselves would wait for the host
        return back_to_back(self._watch, queue, more, self._queue_first_values, renew_every)

    def run_cold(self) -> float:
        return self._watch.seconds(self._launch, flush=True)

    def profile(self, name: str, hot: bool) -> None:
        """One launch in an NVTX range ``name``, the only one that a profiler sees. The launch before it sets up what
        libraries set up at their first and, for hot points, fills the caches."""
        with self._watch.stream:
            self._launch()
        if not hot:
            self.restore()
        profile_launch(self._launch, self._watch.stream, name)

    def restore(self) -> None:
        import cupy

        self._queue_first_values()

        cupy.cuda.runtime.deviceSynchronize()

    def _queue_first_values(self) -> None:
        for name, values in self._first.items():
            self._operands[name][...] = values

    def release(self) -> None:
        import cupy

        self._graphs.clear()
        self._bands.clear()
        self._expected = None
        self._operands.clear()
        self._first.clear()
        self._launch = lambda: None
        gc.collect()  # operands in reference cycles would keep their memory until the collector came by
        cupy.get_default_memory_pool().free_all_blocks()
        if self._torch:
            import torch

            torch.cuda.empty_cache()

    _watch_limit = 512

    def _queue(self, launches: int) -> Callable[[], Any]:
        """Puts so many launches on the stream."""
        if launches == 1:
            return self._launch
        replays, rest = divmod(launches, self._watch_limit)
        parts = [self._graph(self._watch_limit)] * replays + ([self._graph(rest)] if rest else [])

        def queue() -> None:
            for part in parts:
                part()

        return queue

    def _graph(self, launches: int) -> Callable[[], Any]:
        """A graph of so many launches; where capture is refused, the launches themselves behind the gate."""
        if launches not in self._graphs:
            if len(self._graphs) > 24:
                self._graphs.clear()
            self._graphs[launches] = self._captured(launches)
        return self._graphs[launches]

    def _captured(self, launches: int) -> Callable[[], Any]:
        def one_by_one() -> None:
            for _ in range(launches):
                self._launch()

        if self._no_graph:
            return one_by_one
        try:
            if self._torch:
                from roofexp.devices.cuda.operands import torch_graph

                return torch_graph(self._launch, launches, self._watch.stream)
            return self._watch.graph(self._launch, launches)
        except Exception as error:  # whatever a library does in its launch that cannot be captured
            self._no_graph = (str(error).splitlines() or [type(error).__name__])[0]
            self._graphs.clear()  # they replay on the stream that the failed capture has spoilt
            self._watch.renew_stream()
            return one_by_one

    def _take_result(self, result: Any) -> None:
        """A call that gives its result instead of writing it: copied into the output operand for the check."""
        outputs = self._kernel.outputs
        if result is None or len(outputs) != 1 or not self._torch:
            return
        from roofexp.devices.cuda.operands import as_array

        found = as_array(result, outputs[0].storage)
        if found.data.ptr != self._operands[outputs[0].name].data.ptr:
            self._operands[outputs[0].name][...] = found.reshape(outputs[0].shape)

    def _as_float64(self, names: list[str]) -> dict[str, Any]:
        converted = {}
        for name in names:
            operand = self._kernel.operand(name)
            assert operand
            converted[name] = to_float64(self._operands[name], operand.storage)
        return converted
