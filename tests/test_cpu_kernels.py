"""Every kernel in YAML gives the right result on the CPU, and the roof benchmarks execute what they say."""

from __future__ import annotations

import functools
import re
import sys
import time
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from roofexp.config.paths import conf_folder, kernels_folder
from roofexp.config.schema import KernelConfig
from roofexp.devices.base import _deviation
from roofexp.devices.cpu.device import CpuDevice
from roofexp.errors import BadInputError
from roofexp.kernel import Kernel, build_kernel
from roofexp.kernel.llvm.builder import ThreadCode, Vector
from roofexp.kernel.load import load_kernel
from tests.kernel_cases import kernel_yaml

DESCRIBED = conf_folder() / "kernel"


@functools.cache
def composed(name: str) -> dict[str, Any]:
    """The kernel on top of those that it inherits, checked against its types."""
    kernel = OmegaConf.to_container(OmegaConf.merge(KernelConfig, kernel_yaml(name)), enum_to_str=True)
    assert isinstance(kernel, dict)
    return kernel


def names_for_the_cpu() -> list[str]:
    """Kernels with code for the CPU of their own, or inherited and not set to null."""
    names = []
    for file in sorted(DESCRIBED.rglob("*.yaml")):
        name, written = file.relative_to(DESCRIBED).with_suffix("").as_posix(), OmegaConf.load(file)
        own = [written[key] for key in ("cpu", "numpy") if key in written]
        inherits = "defaults" in written and None not in own
        if not name.startswith("faults/") and (any(own) or inherits):  # those are wrong on purpose
            names.append(name)
    return [name for name in names if composed(name).get("cpu") or composed(name).get("numpy")]


def build(name: str, precision: str, size: int) -> Kernel:
    """Fixed dimensions are cut, so that the size alone decides how much work it is."""
    config = OmegaConf.create({"size": size, "kernel": composed(name)})
    for dimension, length in composed(name)["shape"].items():
        if isinstance(length, int):
            config.kernel.shape[dimension] = min(length, 1000)
    described = OmegaConf.to_container(OmegaConf.load(conf_folder() / "precision" / f"{precision}.yaml"))
    return build_kernel(OmegaConf.to_container(config.kernel, resolve=True), described, size, "normal")


SIZES = (1, 31, 33, 1000, 4097)
MOST_FLOPS, MOST_BYTES = 3_000_000_000, 30_000_000
X86 = "x86_64-unknown-linux-gnu"
DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice(None, [kernels_folder()])


def load(device: CpuDevice, file: str, name: str):
    return device.load_function(f"{file}:{name}", "test")


def params(**changes: int) -> dict[str, int]:
    """Of a stream roof."""
    return {"repeats": 1, "nontemporal": 0, "vector_bytes": 0, "threads": 0, **changes}


WRITTEN_FOR = [(name, p) for name in names_for_the_cpu() for p in ("fp64", "fp32") if p in composed(name)["precisions"]]


@pytest.mark.parametrize(("name", "precision"), WRITTEN_FOR)
def test_result_at_awkward_sizes(device: CpuDevice, name: str, precision: str) -> None:
    for size in SIZES:
        kernel = build(name, precision, size)
        if kernel.work.flops > MOST_FLOPS or kernel.work.working_set_bytes > MOST_BYTES:
            continue
        implementation = device.choose(kernel)
        loaded = device.load(kernel, implementation, seed=size)
        check = loaded.check()
        loaded.run_hot(2)
        loaded.check_after_timing()
        assert name == "roofs/empty" or check is not None, "a kernel without a reference proves nothing"


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "layernorm"])
def test_rows_of_any_length(device: CpuDevice, name: str) -> None:
    for columns in (1, 7, 33, 1000):
        kernel = build(name, "fp32", 5)
        function = load(device, f"nn/{name}.py", name)
        x = np.random.default_rng(columns).standard_normal((5, columns), np.float32)
        w, b, y, eps = (
            np.ones(columns, np.float32),
            np.zeros(columns, np.float32),
            np.full_like(x, np.nan),
            np.float32(0),
        )
        arguments = {"x": x, "w": w, "b": b, "y": y, "eps": eps}
        function(*(arguments[name] for name in kernel.argument_names("cpu")))
        x = x.astype(np.float64)
        if name == "softmax":
            np.testing.assert_allclose(y.sum(axis=1), 1, rtol=1e-5)
        elif name == "rmsnorm":
            np.testing.assert_allclose(y, x / np.sqrt((x * x).mean(axis=1, keepdims=True)), rtol=1e-4)
        elif columns > 1:
            np.testing.assert_allclose(y, (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), atol=1e-4)


@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE], ids=str)
def test_nan_and_infinity_are_not_lost(device: CpuDevice, dtype: np.dtype) -> None:
    x = np.zeros((3, 100), dtype)
    x[1, 50] = np.nan
    x[2, 7] = -np.inf
    y = np.empty_like(x)
    load(device, "nn/softmax.py", "softmax")(x, y)
    assert np.isfinite(y[0]).all()
    assert np.isnan(y[1]).all(), "a NaN makes its whole row NaN, and no other"
    assert y[2, 7] == 0
    assert y[2, 8] == pytest.approx(1 / 99)

    g = np.array([np.nan, np.inf, -np.inf, 1e4, -1e4], dtype)
    ones, gated = np.ones_like(g), np.empty_like(g)
    load(device, "nn/silu_mul.py", "silu_mul")(g, ones, gated)
    assert np.isnan(gated[[0, 2]]).all(), "-inf * 0 is NaN in NumPy too"
    assert list(gated[[1, 3, 4]]) == [np.inf, 1e4, 0]


def test_work_is_the_useful_work() -> None:
    def work(name: str, size: int, **given: int) -> tuple[int, int]:
        kernel = load_kernel(name, [conf_folder()], "fp32", size, given, "normal")
        return kernel.work.flops, kernel.work.dram_bytes

    assert work("copy", 1000) == (0, 8000)
    assert work("triad", 1000) == (2000, 12000)
    assert work("dot", 1000) == (2000, 8000)
    assert work("gemm_naive", 10) == (2000, 1200)
    assert work("softmax", 2) == (5 * 2 * 4096, 8 * 2 * 4096)
    assert work("silu_mul", 1000) == work("silu_then_mul", 1000) == (5000, 12000)
    assert work("intensity", 1000, k=0) == (0, 8000)
    assert work("intensity", 1000, k=512) == (1024 * 1000, 8000)
    assert work("roofs/fma", 3) == (3 * 2 * 122_880, 12)
    assert work("roofs/triad", 1000, repeats=7) == (14_000, 84_000)


@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE], ids=str)
@pytest.mark.parametrize("nontemporal", [0, 1])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_streams_touch_every_element_once_and_no_other(
    device: CpuDevice, dtype: np.dtype, nontemporal: int, threads: int
) -> None:
    """At any alignment and for any division among threads."""
    given = params(nontemporal=nontemporal, threads=threads)
    write, copy, triad, read = (load(device, "roofs/stream.py", name)(dtype, given, 2)
                                for name in ("write", "copy", "triad", "read"))  # fmt: skip
    room = np.random.default_rng(1).standard_normal((3, 1200)).astype(dtype)
    for first in (0, 1, 3, 5):
        for count in (1, 6, 31, 129, 1000):
            x, y = room[0, first : first + count], room[1, 2 * first : 2 * first + count]
            for launch, expected in (
                (lambda z: write(z, 2.5), np.full(count, 2.5)),
                (lambda z: copy(x, z), x),  # noqa: B023
                (lambda z: triad(x, y, z, 2.0), x + 2 * y),  # noqa: B023
            ):
                out = np.full(1200, -77.0, dtype)
                launch(out[first : first + count])
                np.testing.assert_allclose(out[first : first + count], expected, rtol=1e-5, atol=1e-6)
                assert (out[:first] == -77).all()
                assert (out[first + count :] == -77).all()
            largest = np.zeros(1, dtype)
            read(x, largest)
            assert largest[0] == x.max()


@pytest.mark.parametrize("k", [0, 1, 3, 100])
def test_intensity_makes_k_steps(device: CpuDevice, k: int) -> None:
    launch = load(device, "stream/intensity.py", "build")(DOUBLE, {"k": k, "nontemporal_bytes": 10**9}, 2)
    x = np.random.default_rng(k).standard_normal(1003)
    y, expected = np.full_like(x, np.nan), x.copy()
    launch(x, y, 0.9, 0.3)
    for _ in range(k):
        expected = 0.9 * expected + 0.3
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def instructions(assembly: str, pattern: str) -> int:
    return len(re.findall(rf"^\s+{pattern}\s", assembly, re.MULTILINE))


def roof_code(device: CpuDevice, step: str, vector: Vector, chains: int, cpu: str, triple: str) -> str:
    chains_of, mul_add = (load(device, "roofs/fma.py", name) for name in ("chains_of", "mul_add"))
    steps = {"fma": Vector.fma, "mul_add": mul_add}[step]
    return ThreadCode(chains_of(vector, chains, 122_880, steps), cpu, triple).assembly


@pytest.mark.parametrize(
    ("dtype", "vector_bytes", "chains", "cpu", "instruction", "register"),
    [
        (DOUBLE, 32, 10, "znver3", "vfmadd[0-9]+pd", "ymm"),
        (SINGLE, 32, 10, "haswell", "vfmadd[0-9]+ps", "ymm"),
        (DOUBLE, 64, 20, "skylake-avx512", "vfmadd[0-9]+pd", "zmm"),
        (SINGLE, 64, 20, "icelake-server", "vfmadd[0-9]+ps", "zmm"),
    ],
)
def test_fma_roof_is_nothing_but_fused_multiply_adds(
    device: CpuDevice, dtype: np.dtype, vector_bytes: int, chains: int, cpu: str, instruction: str, register: str
) -> None:
    code = roof_code(
        device, "fma", Vector(dtype, vector_bytes // dtype.itemsize), chains, cpu, "x86_64-unknown-linux-gnu"
    )
    assert instructions(code, instruction) == 8 * chains
    inner = loop_with(code, instruction)
    assert len(inner) <= 8 * chains + 3, "beside them only the counter"
    assert not any("(%" in line for line in inner), "no memory"
    assert all(f"%{register}" in line for line in inner if re.search(instruction, line))


def test_fma_roof_on_arm(device: CpuDevice) -> None:
    code = roof_code(device, "fma", Vector(DOUBLE, 2), 20, "neoverse-v1", "aarch64-unknown-linux-gnu")
    assert instructions(code, "fmla") == 8 * 20


def test_ceiling_without_fma_has_none(device: CpuDevice) -> None:
    code = roof_code(device, "mul_add", Vector(DOUBLE, 4), 12, "znver3", X86)
    assert instructions(code, "vfmadd.*") == 0
    assert instructions(code, "vmulpd") == 8 * 12


def loop_with(code: str, instruction: str) -> list[str]:
    """The instructions of the loop that holds the first such instruction."""
    lines = [line for line in code.splitlines() if re.match(r"\t[^.]|\.LBB", line)]
    at = next(number for number, line in enumerate(lines) if re.search(instruction, line))
    first = max(number for number in range(at) if lines[number].startswith(".LBB"))
    last = next(number for number in range(at, len(lines)) if lines[number].lstrip().startswith("j"))
    return lines[first + 1 : last + 1]


def test_a_block_that_the_chains_do_not_divide_is_refused(device: CpuDevice) -> None:
    build = load(device, "roofs/fma.py", "build")
    with pytest.raises(BadInputError, match=r"params.block=1000.*multiple of"):
        build(DOUBLE, {"chains": 7, "vector_bytes": 16, "block": 1000, "threads": 1}, 1)


def test_clock_chain_makes_every_step(device: CpuDevice) -> None:
    chain = load(device, "roofs/clock.py", "cycles_chain")
    for cycles in (0, 128, 1024):
        value = 0
        for _ in range(cycles // 2):
            value = ((value + 0x9E3779B97F4A7C15) % 2**64) ^ 0x5851F42D4C957F2D
        assert chain(cycles) == value


def test_clock_chain_takes_one_operation_at_a_time(device: CpuDevice) -> None:
    emit = load(device, "roofs/clock.py", "emit_chain")
    code = ThreadCode(emit, "znver3", X86).assembly
    inner = loop_with(code, "xorq")
    additions = [line for line in inner if re.match(r"\taddq\t%", line)]
    mixes = [line for line in inner if re.match(r"\txorq\t%", line)]
    assert len(additions) == len(mixes) == 64
    assert len({line.rsplit("%", 1)[1] for line in additions + mixes}) == 1, "all on one register"
    assert len(inner) <= 2 * 64 + 3


def test_clock_chain_runs_on_every_thread(device: CpuDevice) -> None:
    team = load(device, "roofs/clock.py", "cycles_chain_team")
    result = np.zeros(5, np.uint64)
    team(1280, result)
    assert len(set(result)) == 5, "each chain starts from its thread's number"


def test_clock_chain_takes_time_in_proportion(device: CpuDevice) -> None:
    """The shortest times of a machine that others use too; they only get better."""
    chain = load(device, "roofs/clock.py", "cycles_chain")
    shortest = {204_800: float("inf"), 2_048_000: float("inf")}
    chain(128)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not 9 < shortest[2_048_000] / shortest[204_800] < 10.5:
        for cycles in shortest:
            start = time.perf_counter()
            chain(cycles)
            shortest[cycles] = min(shortest[cycles], time.perf_counter() - start)
    assert 9 < shortest[2_048_000] / shortest[204_800] < 10.5


def test_no_kernel_file_hides_a_module_of_the_language(device: CpuDevice) -> None:
    """Kernel folders are searched after the standard library, whose copy must stay what it is."""
    load(device, "stream/copy.py", "build")
    assert "kernels" not in str(sys.modules["copy"].__file__)


@pytest.mark.parametrize("shape", [(3,), (700_001,), (3, 400_000), (1024, 1024), (2, 3, 200_000)])
def test_every_element_is_compared_whatever_the_slices(shape: tuple[int, ...]) -> None:
    wanted = np.zeros(shape)
    for place in (0, -1, wanted.size // 2):
        found = wanted.copy()
        found.reshape(-1)[place] = -2.5
        assert _deviation(found, wanted, np) == (0, 2.5)
        found.reshape(-1)[place] = np.nan
        assert _deviation(found, wanted, np) == (1, 0.0)
    assert _deviation(np.ones(shape), np.broadcast_to(np.zeros(()), shape), np) == (0, 1.0)
