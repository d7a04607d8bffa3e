"""The kernels with planted faults: they compile, their machine code holds the fault and that of the twin does not, and
their references are what their code computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roofexp.devices.cuda.code import defines_of, entries_of, launch_shape
from roofexp.kernel import Kernel, error_scales, reference_values
from tests.kernel_cases import CONF, KERNELS, build
from tests.test_nvrtc import compile_kernel, disassembled

FAULTS = sorted(f"faults/{file.stem}" for file in (CONF / "kernel/faults").glob("*.yaml"))
OLDEST, COMMON, NEWEST = 75, 90, 120


@pytest.fixture(scope="module")
def cache(cache_folder: Path) -> Path:
    return cache_folder / "cubin"


SOURCES = [f"faults/{file.name}" for file in sorted((KERNELS / "faults").glob("*.cu"))]


@pytest.mark.parametrize("source", SOURCES)
def test_faults_compile_for_the_oldest_and_the_newest_gpu(source: str, cache: Path) -> None:
    """All of them for one architecture, one of each source for the others."""
    kernels = [kernel for kernel in (build(name, "fp32") for name in FAULTS) if _source(kernel) == source]
    programs = {
        repr(sorted(defines_of(kernel).items())): kernel for kernel in kernels
    }  # several entries in one program
    for kernel in programs.values():
        compile_kernel(kernel, f"sm_{COMMON}", cache)
    for arch in (OLDEST, NEWEST):
        compile_kernel(kernels[0], f"sm_{arch}", cache)


def _source(kernel: Kernel) -> str:
    return str(kernel.implementations["cuda"]["source"])


def counts(name: str, cache: Path, folder: Path) -> dict[str, int]:
    """How often each instruction stands in the first entry's machine code, modifiers cut off."""
    entry = entries_of(build(name, "fp32").implementations["cuda"])[0]
    found: dict[str, int] = {}
    for block in disassembled(name, "fp32", cache, folder)[entry]:
        for instruction in block:
            found[instruction.split(".")[0]] = found.get(instruction.split(".")[0], 0) + 1
    return found


@pytest.mark.parametrize(
    ("fault", "instructions", "least", "most_in_twin"),
    [
        ("spills", ("LDL", "STL"), 100, 0),
        ("special_functions", ("MUFU",), 64, None),
        ("fp64_by_accident", ("DFMA",), 32, 0),
        ("fp64_by_accident", ("F2F",), 64, 0),
        ("conversions", ("F2I",), 12, 0),
        ("integer_indexing", ("LOP3", "SHF"), 100, 20),
        ("barriers", ("BAR",), 4, 0),
        ("atomics", ("RED", "REDG"), 1, None),
        ("bank_conflicts", ("LDS",), 32, None),
    ],
)
def test_machine_code_holds_the_fault(
    fault: str, instructions: tuple[str, ...], least: int, most_in_twin: int | None, cache: Path, tmp_path: Path
) -> None:
    found = counts(f"faults/{fault}", cache, tmp_path)
    assert sum(found.get(name, 0) for name in instructions) >= least
    if most_in_twin is not None:
        twin = counts(f"faults/{fault}_healthy", cache, tmp_path)
        assert sum(twin.get(name, 0) for name in instructions) <= most_in_twin


@pytest.mark.parametrize("name", FAULTS)
def test_references_have_the_shape_of_their_outputs(name: str) -> None:
    kernel = build(name, "fp32", 96)
    generator = np.random.default_rng(7)
    arrays = {operand.name: generator.standard_normal(operand.shape) for operand in kernel.operands}
    expected = reference_values(kernel, arrays, np)
    scales = error_scales(kernel, arrays, expected, np)
    for operand in kernel.outputs:
        assert np.broadcast_to(expected[operand.name], operand.shape).shape == operand.shape
        assert np.isfinite(expected[operand.name]).all()
        assert scales[operand.name] > 0


def test_faults_that_concern_the_grid_follow_the_number_of_sms() -> None:
    def blocks(name: str, sms: int) -> int:
        return int(np.prod(launch_shape(build(f"faults/{name}", "fp32"), sms)[1]))

    for sms in (24, 132):
        assert blocks("half_wave", sms) == sms // 2
        assert blocks("tail_wave", sms) == sms + 1
        assert blocks("wave_healthy", sms) == blocks("dependent_chain", sms) == sms
    assert blocks("one_block", 132) == 1
