"""CUDA kernels from their files to something that can be launched: compiled, loaded, with grid and arguments."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roofexp.devices.nvrtc import compile_source
from roofexp.errors import BadInputError
from roofexp.folders import find_kernel_file
from roofexp.formula import evaluate, evaluate_count
from roofexp.kernel import Kernel

STATIC_SHARED_BYTES = 48 * 1024  # more dynamic shared memory than this must be asked for


def compile_cache() -> Path | None:
    folder = os.environ.get("ROOFEXP_CACHE_DIR")
    return Path(folder) / "cubin" if folder else None


def load_module(
    source: str, arch: str, defines: dict[str, str | int], roots: list[Path], cache: Path | None, where: str
) -> Any:
    """The compiled module. Raises BadInputError with the compiler's first error."""
    import cupy

    file = find_kernel_file(source, roots, where)
    try:
        cubin = compile_source(file, arch, defines, roots, cache)
    except BadInputError as error:
        raise BadInputError(f"{where}: {error}") from error
    with tempfile.NamedTemporaryFile(suffix=".cubin") as kept:  # CuPy loads machine code from a file only
        kept.write(cubin)
        kept.flush()
        return _Loaded(cupy.RawModule(path=kept.name))


class _Loaded:
    """Functions are looked up while the file is there: CuPy loads it at the first."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._module.compile()

    def get_function(self, name: str) -> Any:
        return self._module.get_function(name)


def defines_of(kernel: Kernel) -> dict[str, str | int]:
    """The macros that kernels are compiled with; kernels/common.cuh says what they mean."""
    defines: dict[str, str | int] = {f"ROOFEXP_{kernel.precision.upper()}": 1}
    for name, value in kernel.params.items():
        defines[name.upper()] = int(value) if isinstance(value, bool) else value
    return defines


def build_launch(
    kernel: Kernel, operands: dict[str, Any], arch: str, sms: int, roots: list[Path], cache: Path | None
) -> Callable[[], Any]:
    """A function that puts one launch of the kernel on the current stream."""
    code, where = kernel.implementations["cuda"], f"{kernel.where}: cuda"
    module = load_module(code["source"], code.get("arch") or arch, defines_of(kernel), roots, cache, where)
    arguments = _arguments(kernel, operands)
    launches = [_one_launch(kernel, module, entry, arguments, sms) for entry in entries_of(code)]
    if len(launches) == 1:
        return launches[0]

    def launch() -> None:
        for one in launches:
            one()

    return launch


def least_capability(kernel: Kernel) -> int:
    """The oldest architecture that the kernel's code runs on in this precision, 80 for sm_80; 0 for any."""
    least = kernel.implementations["cuda"].get("min_arch") or 0
    return int(least.get(kernel.precision, 0) if isinstance(least, dict) else least)


def entries_of(code: dict[str, Any]) -> list[str]:
    """An op of several kernels names them in order: ``entry: "silu, mul"``."""
    return [name.strip() for name in str(code["entry"]).split(",")]


def _one_launch(kernel: Kernel, module: Any, entry: str, arguments: tuple[Any, ...], sms: int) -> Callable[[], Any]:
    code, where = kernel.implementations["cuda"], f"{kernel.where}: cuda"
    try:
        function = module.get_function(entry)
    except Exception as error:  # CuPy's own kind
        raise BadInputError(f"{where}.entry: {code['source']} has no kernel {entry!r}") from error
    block, grid, shared_bytes = launch_shape(kernel, sms)
    if shared_bytes > STATIC_SHARED_BYTES:
        function.max_dynamic_shared_size_bytes = shared_bytes
    if code.get("max_l1"):
        function.preferred_shared_memory_carveout = 0
    return lambda: function(grid, block, arguments, shared_mem=shared_bytes)


def launch_shape(kernel: Kernel, sms: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Block, grid and bytes of dynamic shared memory from the YAML's formulas; ``sm_count`` is known to them, and to
    the grid also ``block`` (threads per block)."""
    code, where = kernel.implementations["cuda"], f"{kernel.where}: cuda"
    names: dict[str, Any] = {**kernel.names, "sm_count": sms}
    block = _dimensions(code["block"], names, f"{where}.block")
    threads = 1
    for size in block:
        threads *= size
    names |= {"block": threads}
    grid = _dimensions(code["grid"], names, f"{where}.grid")
    return block, grid, evaluate_count(code.get("shared_bytes", 0), names, f"{where}.shared_bytes")


def _dimensions(value: Any, names: dict[str, Any], where: str) -> tuple[int, ...]:
    parts = list(value) if isinstance(value, (list, tuple)) else [value]
    if not 1 <= len(parts) <= 3:
        raise BadInputError(f"{where}: {len(parts)} dimensions; 1 to 3 are possible")
    return tuple(max(1, int(evaluate(part, names, where))) for part in parts)


def _arguments(kernel: Kernel, operands: dict[str, Any]) -> tuple[Any, ...]:
    """Pointers, scalars in the type of the sums, and everything that is counted as a 64-bit integer."""
    import numpy

    real = numpy.float64 if kernel.precision == "fp64" else numpy.float32
    packed: list[Any] = []
    for name in kernel.argument_names("cuda"):
        if name in operands:
            packed.append(operands[name])
        elif name in kernel.scalars:
            packed.append(real(kernel.scalars[name]))
        else:
            packed.append(numpy.int64(kernel.names[name]))
    return tuple(packed)
