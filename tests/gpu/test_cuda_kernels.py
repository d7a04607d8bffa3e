"""Every kernel on the GPU against float64, in every precision, at sizes where mistakes show. Outputs are poisoned."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
import pytest
from kernel_cases import KERNELS, build, cuda_names, cuda_precisions, kernel_config, numeric_cases

from roofexp.devices.cuda.code import compile_source, defines_of, least_capability
from roofexp.devices.cuda.device import CudaDevice
from roofexp.errors import BadInputError, FailedError, SkippedError
from roofexp.kernel import Kernel

OWN = [(name, precision) for name in cuda_names() for precision in cuda_precisions(name)]
SWEPT = [  # parameters other than those in the YAML
    ("gemm_tiled", {"tile": 8}, 33),
    ("gemm_tiled", {"tile": 32}, 1000),
    ("gemm_register", {"tile": 64}, 200),
    ("gemm_register", {"tile": 32}, 77),
    ("intensity", {"k": 0}, 4097),
    ("intensity", {"k": 37}, 4097),
    ("intensity", {"k": 512}, 100_003),
    ("transpose_padded", {"tile": 64}, 1000),
    ("roofs/read", {"repeats": 5}, 1_000_003),
    ("roofs/read", {"repeats": 5, "rotate": 1}, 1_000_003),
    ("roofs/write", {"repeats": 3, "stores": 0}, 1_000_003),
    ("roofs/copy", {"repeats": 3, "blocks_per_sm": 8}, 1_000_003),
    ("roofs/copy", {"unroll": 1, "loads": 1, "stores": 1, "block_threads": 1024}, 1_000_003),
    ("roofs/triad", {"loads": 2}, 1_000_003),
    ("roofs/triad", {"loads": 3, "blocks_per_sm": 2}, 1_000_003),
    ("roofs/cuda_fma", {"chains": 1, "unroll": 2}, 1000),
    ("roofs/cuda_fma", {"uniform_bytes": 16, "threads": 1024}, 1000),
    ("roofs/cuda_strided", {"stride": 7}, 100_003),
    ("roofs/cuda_strided", {"stride": 1, "offset": 1}, 100_003),
    ("roofs/cuda_strided", {"stride": 3, "offset": 5}, 4),
    ("roofs/read", {"blocks": 1, "block_threads": 1024}, 1_000_003),
]
LARGE = [
    ("copy", 2**24 + 3),
    ("saxpy", 2**24 + 3),
    ("dot", 2**24 + 3),
    ("stencil", 2049),
    ("transpose", 2049),
    ("gemv", 4097),
]
CALLS = [  # library calls at sizes that the libraries take
    ("gemm", [1, 33, 1000]),
    ("gemv_cublas", [1, 33, 1000]),
    ("gemm_fp8", [64, 1008]),
    ("gemm_int8", [64, 1000]),
    ("softmax_torch", [33]),
    ("layernorm_torch", [33]),
    ("rmsnorm_torch", [33]),
    ("silu_mul_eager", [1, 4097]),
    ("sdpa_prefill", [33, 256]),
    ("sdpa_decode", [33, 1000]),
]


def compiled(kernel: Kernel, arch: str, cache: Path) -> None:
    code = kernel.implementations["cuda"]
    with contextlib.suppress(BadInputError):  # the test of that kernel says it
        compile_source(KERNELS / code["source"], code.get("arch") or arch, defines_of(kernel), [KERNELS], cache)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CudaDevice]:
    """With everything compiled beforehand, on all cores."""
    folder = Path(os.environ.setdefault("ROOFEXP_CACHE_DIR", str(tmp_path_factory.mktemp("cache"))))
    found = CudaDevice(0, [KERNELS])
    arch = "sm_" + str(found.machine().details["architecture"]).replace(".", "")
    kernels = [build(name, precision) for name, precision in OWN]
    kernels = [kernel for kernel in kernels if least_capability(kernel) <= int(arch[3:])]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compiled, kernels, [arch] * len(kernels), [folder / "cubin"] * len(kernels)))
    yield found
    found.close()


def check(device: CudaDevice, kernel: Kernel, seed: int = 0) -> str | None:
    """What is wrong with the kernel's result; None when it is right."""
    loaded = device.load(kernel, device.choose(kernel), seed)
    try:
        loaded.check()
        loaded.run_hot(2)
        loaded.check_after_timing()
    except FailedError as error:
        return f"{kernel.name} {kernel.precision} {kernel.shape} {kernel.params}: {error}"
    finally:
        loaded.release()
    return None


def assert_right(device: CudaDevice, kernels: list[Kernel]) -> None:
    try:
        wrong = [found for seed, kernel in enumerate(kernels) if (found := check(device, kernel, seed))]
    except SkippedError as error:
        pytest.skip(str(error))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("name", "precision"), OWN)
def test_own_code(name: str, precision: str, device: CudaDevice) -> None:
    assert_right(device, list(numeric_cases(name, precision)))


@pytest.mark.parametrize(("name", "params", "size"), SWEPT)
def test_other_parameters(name: str, params: dict[str, int], size: int, device: CudaDevice) -> None:
    kernels = [build(name, precision, size) for precision in cuda_precisions(name)]
    changed = [msgspec.structs.replace(kernel, params={**kernel.params, **params}) for kernel in kernels]
    if name.startswith("roofs/cuda_fma"):
        changed = [msgspec.structs.replace(kernel, shape={**kernel.shape, "passes": 100}) for kernel in changed]
    assert_right(device, changed)


@pytest.mark.parametrize(("name", "size"), LARGE)
def test_more_than_one_wave_of_blocks(name: str, size: int, device: CudaDevice) -> None:
    assert_right(device, [build(name, precision, size) for precision in cuda_precisions(name)])


@pytest.mark.parametrize("name", ["roofs/cuda_wgmma", "roofs/cuda_mma_sync"])
def test_sums_in_fp16(name: str, device: CudaDevice) -> None:
    kernel = build(name, "fp16", 3, passes=16)
    assert_right(device, [msgspec.structs.replace(kernel, params={**kernel.params, "accumulate": 16})])


@pytest.mark.parametrize("launches", [2, 5])
def test_reductions_over_the_grid_can_be_launched_again(launches: int, device: CudaDevice) -> None:
    """The last block leaves the counter at zero for the next launch."""
    kernel = build("dot", "fp32", 1_000_003)
    loaded = device.load(kernel, "cuda", 1)
    try:
        for _ in range(launches):
            loaded.run_hot(3)
            assert loaded.check() is not None
    finally:
        loaded.release()


@pytest.mark.parametrize(("name", "sizes"), CALLS)
def test_library_calls(name: str, sizes: list[int], device: CudaDevice) -> None:
    for precision in kernel_config(name)[0]["precisions"]:
        assert_right(device, [build(name, precision, size) for size in sizes])
