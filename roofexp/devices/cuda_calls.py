"""Library calls on the GPU: cuBLAS through CuPy, and PyTorch, on the operands and the stream of the measurement."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from roofexp.devices.calls import compile_call
from roofexp.kernel import Kernel

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
        from roofexp.devices.cublas import Cublas

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
