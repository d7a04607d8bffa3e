"""Operands in the GPU's memory. Types that CuPy does not know are stored as integers of the same size and converted
here: bfloat16 as its upper half of a float, e4m3 through a table of its 256 values."""

from __future__ import annotations

import ctypes
import functools
import math
import weakref
import zlib
from collections.abc import Callable
from typing import Any

from roofexp.devices.library_call import compile_call
from roofexp.devices.operand_guard import Bands, guarded
from roofexp.errors import FailedError
from roofexp.kernel import Kernel, Operand

CONTAINERS = {"bfloat16": "uint16", "float8_e4m3": "uint8"}
ALIGNMENT_BYTES = 512  # as CUDA's own allocations
ROW_WORDS = 2048
INT8_SCALE = 32.0  # standard deviations to integers: four of them fill the range


def allocate(operand: Operand) -> tuple[Any, Bands]:
    """Memory of the operand's stored form, and the bands around it."""
    import cupy

    memory, bands = guarded(
        operand.name, operand.bytes, ALIGNMENT_BYTES, lambda count: cupy.empty(count, cupy.uint8),
        lambda buffer: int(buffer.data.ptr),
    )  # fmt: skip
    return memory.view(CONTAINERS.get(operand.storage, operand.storage)).reshape(operand.shape), bands


def fingerprint(array: Any) -> int:
    """Changes with every word and with the place of each: sums over the rows and over the columns of its 8-byte words,
    which the GPU adds up as fast as it reads."""
    memory = array.reshape(-1).view("uint8")
    whole = memory.size // (8 * ROW_WORDS) * 8 * ROW_WORDS
    words = memory[:whole].view("uint64").reshape(-1, ROW_WORDS)
    found = zlib.crc32(memory[whole:].get())
    if whole:
        found = zlib.crc32(words.sum(axis=1).get(), zlib.crc32(words.sum(axis=0).get(), found))
    return found


def fill_array(operand: Operand, generator: Any) -> Any:
    """Random values of the operand's type; outputs too, since what they held must not matter."""
    import cupy

    container = CONTAINERS.get(operand.storage, operand.storage)
    if operand.fill == "zeros":
        return cupy.zeros(operand.shape, container)
    wide = "float64" if operand.storage == "float64" else "float32"
    if operand.fill == "uniform":
        values = generator.random(operand.shape, dtype=wide)
    else:
        values = generator.standard_normal(operand.shape, dtype=wide)
    return from_float(values, operand.storage)


def from_float(values: Any, storage: str) -> Any:
    """float32 or float64 values rounded to the stored type."""
    import cupy

    if storage == "bfloat16":
        bits = values.astype(cupy.float32).view(cupy.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(cupy.uint16)  # to nearest, ties to even
    if storage == "float8_e4m3":
        return _to_e4m3(values)
    if storage == "int8":
        return cupy.clip(cupy.rint(values * INT8_SCALE), -127, 127).astype(cupy.int8)
    return values.astype(storage)


def to_float64(array: Any, storage: str) -> Any:
    import cupy

    if storage == "bfloat16":
        return (array.astype(cupy.uint32) << 16).view(cupy.float32).astype(cupy.float64)
    if storage == "float8_e4m3":
        return cupy.asarray(e4m3_values())[array.astype(cupy.int32)]
    return array.astype(cupy.float64)


def poison_array(array: Any, storage: str) -> None:
    """What no result may contain: NaN, or the lowest integer."""
    if storage == "bfloat16":
        array.fill(0x7FFF)
    elif storage == "float8_e4m3":
        array.fill(0x7F)
    elif storage.startswith("int"):
        array.fill(-128)
    else:
        array.fill(math.nan)


def e4m3_values() -> list[float]:
    """The value of each of the 256 bit patterns: sign, 4 exponent bits biased by 7, 3 of mantissa; no infinity, the
    all-ones pattern is NaN (OCP 8-bit Floating Point Specification 1.0)."""
    values = []
    for bits in range(256):
        sign, exponent, mantissa = -1.0 if bits & 0x80 else 1.0, (bits >> 3) & 0xF, bits & 0x7
        if exponent == 0xF and mantissa == 0x7:
            values.append(math.nan)
        elif exponent == 0:
            values.append(sign * mantissa / 8 * 2.0**-6)
        else:
            values.append(sign * (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    return values


def _to_e4m3(values: Any) -> Any:
    """The nearest pattern, by bisection in the ascending values of one sign."""
    import cupy

    positive = cupy.asarray(e4m3_values()[:127])
    middles = (positive[1:] + positive[:-1]) / 2
    patterns = cupy.searchsorted(middles, cupy.abs(values.astype(cupy.float64)).ravel()).reshape(values.shape)
    return (patterns.astype(cupy.uint8) | cupy.where(values < 0, 0x80, 0).astype(cupy.uint8)).astype(cupy.uint8)


# cudaDataType_t and cublasComputeType_t, from library_types.h and cublas_api.h
DATA_TYPES = {"fp64": 1, "fp32": 0, "tf32": 0, "fp16": 2, "bf16": 14}
COMPUTE_TYPES = {"fp64": 70, "fp32": 68, "tf32": 77, "fp16": 68, "bf16": 68}
NO_TRANSPOSE, DEFAULT_ALGORITHM = 0, -1


WORKSPACE_BYTES = 32 * 1024**2  # what cuBLAS asks for on Hopper


class Cublas:
    """``precision`` fixes types; fp32 stays on the CUDA cores, tf32 and narrower go to the tensor cores.

    cuBLAS is called itself, with a handle and a workspace of its own: CuPy refuses every call while a graph is
    captured, and a workspace that cuBLAS would allocate then cannot be captured.
    """

    __name__ = "cuBLAS"

    def __init__(self, precision: str) -> None:
        import cupy
        import numpy

        self._library = ctypes.CDLL(f"libcublas.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}")
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._workspace = cupy.empty(WORKSPACE_BYTES, cupy.uint8)
        self._stream: int | None = None
        self._data = DATA_TYPES[precision]
        self._compute = COMPUTE_TYPES[precision]
        kind = numpy.float64 if precision == "fp64" else numpy.float32
        self._one, self._zero = numpy.ones(1, kind), numpy.zeros(1, kind)
        weakref.finalize(self, self._library.cublasDestroy_v2, self._handle)

    def matmul(self, a: Any, b: Any, out: Any) -> None:
        """out[m, n] = a[m, k] b[k, n]; a vector ``b`` is a matrix of one column."""
        self._follow_stream()
        (m, k), n = a.shape, b.shape[1] if b.ndim == 2 else 1
        data = self._data
        self._call(
            "cublasGemmEx", self._handle, NO_TRANSPOSE, NO_TRANSPOSE, n, m, k, _address(self._one.ctypes.data),
            _address(b.data.ptr), data, n, _address(a.data.ptr), data, k, _address(self._zero.ctypes.data),
            _address(out.data.ptr), data, n, self._compute, DEFAULT_ALGORITHM,
        )  # fmt: skip

    def _follow_stream(self) -> None:
        """To CuPy's current stream. A change of it takes the workspace away."""
        import cupy

        stream = cupy.cuda.get_current_stream().ptr
        if stream != self._stream:
            self._call("cublasSetStream_v2", self._handle, _address(stream))
            size = ctypes.c_size_t(WORKSPACE_BYTES)
            self._call("cublasSetWorkspace_v2", self._handle, _address(self._workspace.data.ptr), size)
            self._stream = stream

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            raise FailedError("library", f"{function} returned status {status} (cublas_api.h says what it means)")


def _address(pointer: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(pointer)


TORCH_TYPES = {
    "float64": "float64",
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float8_e4m3": "float8_e4m3fn",
    "int8": "int8",
    "int32": "int32",
}

CUBLAS_PRECISIONS = {"fp64", "fp32", "tf32", "fp16", "bf16"}


def why_no_call(kernel: Kernel, implementation: str) -> str | None:
    """Why a library cannot do this precision; None when it can."""
    if implementation == "cupy" and kernel.precision not in CUBLAS_PRECISIONS:
        return f"{kernel.name} in {kernel.precision} is not done through cuBLAS here"
    return None


def build_call(
    kernel: Kernel, implementation: str, operands: dict[str, Any], stream: Callable[[], Any]
) -> Callable[[], Any]:
    """A function that puts the call on the stream of the measurement, which ``stream`` gives: after a failed capture
    that is another one than before."""
    where = f"{kernel.where}: {implementation}.call"
    call = kernel.implementations[implementation]["call"]
    if implementation == "cupy":
        return compile_call(call, Cublas(kernel.precision), {**kernel.names, **operands}, where)
    import torch

    set_torch_precision(kernel.precision)
    names: dict[str, Any] = {**kernel.names}
    for operand in kernel.operands:
        names[operand.name] = as_tensor(operands[operand.name], operand.storage)
    function = compile_call(call, torch, names, where)
    external = functools.lru_cache(maxsize=2)(torch.cuda.ExternalStream)

    def launch() -> Any:
        with torch.cuda.stream(external(stream().ptr)), torch.no_grad():
            return function()

    return launch


def set_torch_precision(precision: str) -> None:
    """tf32 only where it was asked for; sums of 16-bit products in fp32."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


def as_tensor(array: Any, storage: str) -> Any:
    """The same memory as a tensor; types that CuPy does not know are reinterpreted."""
    import torch

    kind = getattr(torch, TORCH_TYPES[storage])
    if storage in ("bfloat16", "float8_e4m3"):
        return torch.as_tensor(array.view(f"int{8 * array.itemsize}"), device="cuda").view(kind)
    return torch.as_tensor(array, device="cuda")


def as_array(tensor: Any, storage: str) -> Any:
    """A result as a CuPy array in the operand's stored form."""
    import cupy
    import torch

    kind = getattr(torch, TORCH_TYPES[storage])
    tensor = tensor.detach().to(kind).contiguous()
    torch.cuda.synchronize()
    if storage == "bfloat16":
        return cupy.asarray(tensor.view(torch.int16)).view(cupy.uint16)
    if storage == "float8_e4m3":
        return cupy.asarray(tensor.view(torch.int8)).view(cupy.uint8)
    return cupy.asarray(tensor)


def torch_graph(launch: Callable[[], Any], launches: int, stream: Any) -> Callable[[], Any]:
    """PyTorch's own capture, since its allocator must know of it; replayed on the measurement's stream."""
    import torch

    external = torch.cuda.ExternalStream(stream.ptr)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=external), torch.no_grad():
        for _ in range(launches):
            launch()
    torch.cuda.synchronize()

    def replay() -> None:
        with torch.cuda.stream(external):
            graph.replay()

    return replay
