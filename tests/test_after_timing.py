"""What is looked at after the timing: results, inputs, and the memory around operands. Each kernel here breaks one rule
and passes the check of its first launch."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from roofexp.devices.cpu.device import CpuDevice
from roofexp.devices.cuda import operands as cuda_operands
from roofexp.devices.cuda.device import CudaKernel
from roofexp.devices.operand_guard import BAND_BYTES, INPUT_CHANGED, OUT_OF_BOUNDS, guarded
from roofexp.errors import FailedError
from roofexp.kernel import Kernel
from roofexp.records.archive import read_sweep_points
from tests.kernel_cases import build

# By name: what a kernel does that is to double x into y, at its n-th launch (from 0 on); what it is found to be, and
# what the reason says.
BREAKERS = {
    "right": ("y[:] = 2 * x", None, ""),
    "right_at_first": ("if n == 0: y[:] = 2 * x", "wrong result", "right at the first launch"),
    "wrong_later": ("y[:] = 2 * x if n < 2 else 3 * x", "wrong result", "y is off by"),
    "writes_input": ("y[:] = 2 * x\n    if n > 1: x[3] = 1.5", INPUT_CHANGED, "changed x, whose role is in"),
    "swaps_input": ("y[:] = 2 * x\n    x[[0, 1]] = x[[1, 0]] if n == 2 else x[[0, 1]]", INPUT_CHANGED, "changed x"),
    "writes_after": ("y[:] = 2 * x\n    if n > 1: poke(y, len(y), 1.0)", OUT_OF_BOUNDS, "after its memory"),
    "writes_before": ("y[:] = 2 * x\n    if n > 1: poke(x, -len(x) - 1, 1.0)", OUT_OF_BOUNDS, "outside x: "),
}
CODE = """
import itertools
import numba

launches = itertools.count()


@numba.njit
def poke(array, index, value):
    array[index] = value


def {name}(x, y):
    n = next(launches)
    {body}
"""


def write_kernel(folder: Path, name: str, body: str, role: str = "out", reference: str = "2*x") -> None:
    for part in ("kernel", "kernels"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / f"kernel/{name}.yaml").write_text(
        f"name: {name}\nsize: 1000\nshape: {{n: '${{size}}'}}\noperands:\n  x: {{shape: [n], role: in}}\n"
        f"  y: {{shape: [n], role: {role}}}\nwork: {{flops: n, bytes: 2*n*itemsize}}\nreference: {reference}\n"
        f"precisions: [fp64]\ncpu: {{function: '{name}.py:{name}'}}\n"
    )
    (folder / f"kernels/{name}.py").write_text(CODE.format(name=name, body=body))


def test_kernels_that_are_right_at_their_first_launch_alone_fail(program, tmp_path: Path, sweep_folder) -> None:
    for name, (body, _, _) in BREAKERS.items():
        write_kernel(tmp_path / "mine", name, body)
    done = program("--config-dir", "mine", f"kernel={','.join(BREAKERS)}", "precision=fp64", "-m")
    points = {point.kernel: point for point in read_sweep_points(sweep_folder())}
    for name, (_, kind, telling) in BREAKERS.items():
        point = points[name]
        assert point.reason_kind == kind, (name, point.reason, done.stdout + done.stderr)
        assert telling in (point.reason or "")
        assert (point.timing is None) == (kind is not None), name


def test_outputs_that_are_read_too_are_checked_by_one_more_launch(program, tmp_path: Path, sweep_folder) -> None:
    write_kernel(tmp_path / "mine", "adds", "y += x", "inout", "x+y")
    write_kernel(tmp_path / "mine", "adds_once", "y += x if n == 0 else 0 * x", "inout", "x+y")
    program("--config-dir", "mine", "kernel=adds,adds_once", "precision=fp64", "-m")
    right, wrong = read_sweep_points(sweep_folder())
    assert right.status == "ok", right.reason
    assert (wrong.reason_kind, wrong.timing) == ("wrong result", None)


@pytest.mark.parametrize("alignment", [64, 512])
@pytest.mark.parametrize("count", [1, 4096, 4100])
def test_bands_lie_around_memory_that_is_aligned(alignment: int, count: int) -> None:
    memory, bands = guarded(
        "x", count, alignment, lambda size: numpy.zeros(size, numpy.uint8), lambda buffer: buffer.ctypes.data
    )
    assert memory.size == count
    assert memory.ctypes.data % alignment == 0
    assert bands.before.ctypes.data + BAND_BYTES == memory.ctypes.data
    assert bands.after.ctypes.data == memory.ctypes.data + count
    assert not memory.any()


def test_memory_that_is_needed_counts_the_bands() -> None:
    device, kernel = CpuDevice(1, []), build("vadd", "fp64", 1000)
    operands, copies, reference = 3 * 8000, 3 * 8000, 16 * 1000
    assert device.bytes_needed(kernel) - (device.flush_bytes() or 0) == (
        operands + copies + reference + 3 * (2 * BAND_BYTES + 64)
    )


class FakeArray(numpy.ndarray):
    """Host memory that behaves as CuPy's."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(ptr=self.ctypes.data)

    def get(self) -> Any:
        return numpy.array(self)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As much of CuPy as a loaded kernel uses beside its launches."""
    fake = types.ModuleType("cupy")
    fake.__getattr__ = lambda name: getattr(numpy, name)  # type: ignore[method-assign]
    fake.empty = lambda shape, kind: numpy.empty(shape, kind).view(FakeArray)  # type: ignore[attr-defined]
    runtime = types.SimpleNamespace(deviceSynchronize=lambda: None)
    fake.cuda = types.SimpleNamespace(runtime=runtime)  # type: ignore[attr-defined]
    fake.get_default_memory_pool = lambda: types.SimpleNamespace(free_all_blocks=lambda: None)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


class FakeStream(contextlib.nullcontext[None]):
    def synchronize(self) -> None: ...


def on_gpu(kernel: Kernel, work: Callable[..., Any], implementation: str = "cuda") -> CudaKernel:
    operands, bands = {}, []
    generator = numpy.random.default_rng(1)
    for operand in kernel.operands:
        operands[operand.name], around = cuda_operands.allocate(operand)
        operands[operand.name][...] = generator.standard_normal(operand.shape)
        bands.append(around)
    launches = iter(range(1000))
    watch: Any = types.SimpleNamespace(stream=FakeStream(), own_s=0.0)
    return CudaKernel(kernel, implementation, operands, bands, lambda: work(next(launches), **operands), watch)


def launched(loaded: CudaKernel, times: int = 3) -> None:
    assert loaded.check() is not None
    for _ in range(times):
        loaded._launch()
    loaded.check_after_timing()


def right(n: int, x: Any, y: Any, z: Any) -> None:
    z[...] = x + y


def stays(n: int, x: Any, y: Any, z: Any) -> None:
    if n == 0:
        right(n, x, y, z)


def spoils(n: int, x: Any, y: Any, z: Any) -> None:
    right(n, x, y, z)
    if n == 2:
        y[[10, 2999]] = y[[2999, 10]]


def outside(side: int) -> Callable[..., None]:
    def work(n: int, x: Any, y: Any, z: Any) -> None:
        right(n, x, y, z)
        if n == 2:
            memory = z
            while isinstance(memory.base, numpy.ndarray):
                memory = memory.base
            start = z.ctypes.data - memory.ctypes.data
            memory.view(numpy.uint8)[start + (z.nbytes if side > 0 else -1)] = 1

    return work


@pytest.mark.parametrize(
    ("work", "kind", "telling"),
    [
        (stays, "wrong result", "z are NaN or were left unwritten"),
        (spoils, INPUT_CHANGED, "changed y"),
        (outside(1), OUT_OF_BOUNDS, "outside z: 1 of the 4096 bytes after"),
        (outside(-1), OUT_OF_BOUNDS, "outside z: 1 of the 4096 bytes before"),
    ],
)
def test_a_gpus_kernels_are_looked_at_after_the_timing_too(
    cupy: Any, work: Callable[..., None], kind: str, telling: str
) -> None:
    kernel = build("vadd", "fp64", 3000)
    launched(on_gpu(kernel, right))
    with pytest.raises(FailedError, match=telling) as raised:
        launched(on_gpu(kernel, work))
    assert raised.value.kind == kind


def test_a_gpus_output_that_is_read_too_is_checked_by_one_more_launch(cupy: Any) -> None:
    kernel = build("saxpy", "fp64", 3000)

    def saxpy(n: int, x: Any, y: Any) -> None:
        y += 2.0 * x

    def saxpy_once(n: int, x: Any, y: Any) -> None:
        y += 2.0 * x if n == 0 else 0.0

    launched(on_gpu(kernel, saxpy))
    with pytest.raises(FailedError, match="right at the first launch"):
        launched(on_gpu(kernel, saxpy_once))


def test_a_fingerprint_changes_with_every_word_and_its_place() -> None:
    values = numpy.random.default_rng(2).standard_normal(50_001).view(FakeArray)
    first = cuda_operands.fingerprint(values)
    assert cuda_operands.fingerprint(values.copy()) == first
    for index in (0, 20_000, 50_000):
        changed = values.copy()
        changed[index] = numpy.nextafter(changed[index], 9.0)
        assert cuda_operands.fingerprint(changed) != first
    for pair in ([0, 1], [0, cuda_operands.ROW_WORDS], [5, 40_000]):
        swapped = values.copy()
        swapped[pair] = swapped[pair[::-1]]
        assert cuda_operands.fingerprint(swapped) != first
