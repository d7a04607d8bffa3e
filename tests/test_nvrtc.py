"""Every CUDA kernel compiles for every supported architecture, without a GPU; what a user sees when one does not."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from kernel_cases import KERNELS, build, cuda_names, cuda_precisions

from roofexp.devices.cuda import code
from roofexp.devices.cuda.code import (
    CUBIN_START,
    CompileError,
    compile_source,
    defines_of,
    entries_of,
    find_nvrtc,
    first_error,
    included_files,
    least_capability,
)
from roofexp.errors import BadInputError
from roofexp.kernel import Kernel
from roofexp.roofs.precompile import Blocks, disassemble, find_disassembler, hot_loop

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
ALL_PRECISIONS_ON = 90
SOURCES = [
    path.relative_to(KERNELS).as_posix() for path in sorted(KERNELS.glob("*/*.cu")) if path.parent.name != "faults"
]
NEWER_ONLY = ("roofs/wgmma.cu", "roofs/dmma.cu")  # instructions that the oldest architectures do not have


@pytest.fixture(scope="module")
def cache(cache_folder: Path) -> Path:
    return cache_folder / "cubin"


def compile_kernel(kernel: Kernel, arch: str, cache: Path | None) -> bytes:
    code = kernel.implementations["cuda"]
    return compile_source(KERNELS / code["source"], arch, defines_of(kernel), [KERNELS], cache)


def allowed_precisions(name: str, arch: int) -> list[str]:
    """Those that the kernel's own rules allow: all of them for one architecture, one of them for each of the others."""
    allowed = []
    for precision in cuda_precisions(name):
        kernel = build(name, precision)
        only = kernel.implementations["cuda"].get("arch")
        if arch >= least_capability(kernel) and (only is None or only.rstrip("a") == f"sm_{arch}"):
            allowed.append(precision)
    if arch == ALL_PRECISIONS_ON:
        return allowed
    return ["fp32"] if "fp32" in allowed else allowed[:1]


def instances(source: str) -> dict[tuple[str, str], Kernel]:
    """The distinct programs that kernels make of a file, by macros and architecture."""
    programs: dict[tuple[str, str], Kernel] = {}
    for name in cuda_names():
        if build(name, cuda_precisions(name)[0]).implementations["cuda"]["source"] != source:
            continue
        for arch in ARCHITECTURES:
            for precision in allowed_precisions(name, arch):
                kernel = build(name, precision)
                macros = repr(sorted(defines_of(kernel).items())) if arch == ALL_PRECISIONS_ON else ""
                programs[macros, kernel.implementations["cuda"].get("arch") or f"sm_{arch}"] = kernel
    return programs


@pytest.mark.parametrize("source", SOURCES)
def test_every_kernel_compiles_for_every_architecture(source: str, cache: Path) -> None:
    programs = instances(source)
    for (_, arch), kernel in programs.items():
        assert compile_kernel(kernel, arch, cache).startswith(CUBIN_START), f"{kernel.name} {kernel.precision} {arch}"
    if source not in NEWER_ONLY:
        assert {arch for _, arch in programs} == {f"sm_{arch}" for arch in ARCHITECTURES}


def test_every_file_of_cuda_code_belongs_to_a_kernel() -> None:
    used = {build(name, cuda_precisions(name)[0]).implementations["cuda"]["source"] for name in cuda_names()}
    assert set(SOURCES) <= used


def test_every_entry_is_in_its_file(cache: Path) -> None:
    for name in cuda_names():
        kernel = build(name, cuda_precisions(name)[0])
        arch = kernel.implementations["cuda"].get("arch") or f"sm_{ALL_PRECISIONS_ON}"
        cubin = compile_kernel(kernel, arch, cache)
        for entry in entries_of(kernel.implementations["cuda"]):
            assert f".text.{entry}\0".encode() in cubin, f"{name}: {entry}"


@pytest.mark.parametrize("params", [{"tile": 8}, {"tile": 32}])
def test_tile_sizes_of_the_tiled_product(params: dict[str, int], cache: Path) -> None:
    defines = {**defines_of(build("gemm_tiled", "fp32")), "TILE": params["tile"]}
    assert compile_source(KERNELS / "dense/gemm_tiled.cu", "sm_90", defines, [KERNELS], cache)


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def message_of(file: Path, roots: list[Path], arch: str = "sm_90", defines: dict[str, str | int] | None = None) -> str:
    with pytest.raises(BadInputError) as caught:
        compile_source(file, arch, defines or {}, roots, None)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_compile_error_shows_the_first_error_with_file_and_line(tmp_path: Path) -> None:
    lines = ['extern "C" __global__ void broken(float* x) {', "    int unused;", "    x[0] = foo;", "    bar = 1;", "}"]
    file = write(tmp_path, "stream/broken.cu", "\n".join(lines))
    assert message_of(file, [tmp_path]) == 'stream/broken.cu(3): identifier "foo" is undefined'


def test_an_error_in_a_header_names_the_header(tmp_path: Path) -> None:
    write(tmp_path, "parts/mine.cuh", "#pragma once\nfloat broken = ;\n")
    file = write(tmp_path, "stream/user.cu", '#include "parts/mine.cuh"\nextern "C" __global__ void user() {}\n')
    assert message_of(file, [tmp_path]).startswith("parts/mine.cuh(2): ")


def test_a_missing_header_is_one_line(tmp_path: Path) -> None:
    file = write(tmp_path, "a.cu", '#include "nowhere.cuh"\n')
    message = message_of(file, [tmp_path])
    assert message.startswith("a.cu(1): ")
    assert "nowhere.cuh" in message


def test_an_error_of_the_assembler_is_one_line(tmp_path: Path) -> None:
    file = write(tmp_path, "a.cu", 'extern "C" __global__ void a() { asm volatile("no.such %0;" ::"r"(1)); }\n')
    assert message_of(file, [tmp_path]).startswith("a.cu: assembler: ")


def test_a_kernel_without_a_precision_says_so() -> None:
    assert "ROOFEXP_FP32" in message_of(KERNELS / "stream/saxpy.cu", [KERNELS])


@pytest.mark.parametrize("arch", ["sm_61", "sm_999", "sm_90b", "gfx942"])
def test_an_unknown_architecture_is_named_with_the_compilers_version(arch: str) -> None:
    message = message_of(KERNELS / "roofs/timing.cu", [KERNELS], arch)
    assert message.startswith(f"architecture {arch} is not known to NVRTC {find_nvrtc().version}")
    assert "sm_90" in message


def test_the_first_error_of_an_odd_log() -> None:
    assert first_error("", "a.cu") == "a.cu: the compiler gave no reason"
    assert first_error("nvrtc: error: something new\n", "a.cu") == "a.cu: nvrtc: error: something new"
    log = 'k/a.cu(7): warning #177-D: unused\n\nk/b.cuh(12): error #20: identifier "x" is undefined\n1 error detected'
    assert first_error(log, "a.cu", [Path("k")]) == 'b.cuh(12): identifier "x" is undefined'


def test_compiled_code_is_kept_until_source_header_macro_or_architecture_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    original = code._compile

    def counted(source: str, name: str, *rest: object) -> bytes:
        compiled.append(name)
        return original(source, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(code, "_compile", counted)
    header = write(tmp_path, "factor.cuh", "constexpr float factor = 2;\n")
    file = write(
        tmp_path, "s/a.cu", '#include "factor.cuh"\nextern "C" __global__ void a(float* x) { *x = N * factor; }'
    )

    def build_once(arch: str = "sm_90", n: int = 1) -> bytes:
        return compile_source(file, arch, {"N": n}, [tmp_path], tmp_path / "cache")

    first = build_once()
    assert build_once() == first
    assert len(compiled) == 1
    assert first != build_once(n=3)
    assert first != build_once(arch="sm_80")
    header.write_text("constexpr float factor = 5;\n")
    assert first != build_once()
    assert len(compiled) == 4
    for kept in (tmp_path / "cache").iterdir():
        kept.write_bytes(b"cut short")
    assert build_once().startswith(b"\x7fELF")
    assert len(compiled) == 5
    assert all(kept.suffix == ".cubin" for kept in (tmp_path / "cache").iterdir())


def test_headers_of_headers_are_found() -> None:
    names = [path.name for path in included_files(KERNELS / "nn/softmax.cu", [KERNELS])]
    assert names[0] == "softmax.cu"
    assert {"row.cuh", "reduce.cuh", "vector.cuh", "common.cuh"} <= set(names)


# What the machine code holds: a kernel that compiles can still miss the instructions that it is about.


def disassembled(name: str, precision: str, cache: Path, tmp_path: Path) -> dict[str, Blocks]:
    kernel = build(name, precision)
    arch = kernel.implementations["cuda"].get("arch") or "sm_90"
    return disassemble(compile_kernel(kernel, arch, cache))


def instructions(name: str, precision: str, entry: str, cache: Path, tmp_path: Path) -> list[str]:
    return [one for block in disassembled(name, precision, cache, tmp_path)[entry] for one in block]


def loop(name: str, precision: str, entry: str, instruction: str, cache: Path, tmp_path: Path) -> list[str]:
    return hot_loop(disassembled(name, precision, cache, tmp_path)[entry], instruction)


@pytest.mark.parametrize(("precision", "instruction"), [("fp32", "FFMA"), ("fp64", "DFMA"), ("fp16", "HFMA2")])
def test_the_arithmetic_roof_is_nearly_all_multiply_adds(
    precision: str, instruction: str, cache: Path, tmp_path: Path
) -> None:
    body = loop("roofs/cuda_fma", precision, "fma_chains", instruction, cache, tmp_path)
    share = sum(one.startswith(instruction) for one in body) / len(body)
    assert len(body) >= 512
    assert share >= 0.98


def test_the_fp64_roof_reads_two_registers_of_its_own_and_one_that_all_share(cache: Path) -> None:
    """A DFMA with three 64-bit operands of the thread's own reads a register bank three times in its two cycles."""
    tool = find_disassembler()
    assert tool
    file = cache / "fp64_roof.cubin"
    file.write_bytes(compile_kernel(build("roofs/cuda_fma", "fp64"), "sm_90", cache))
    text = subprocess.run([tool, "-c", str(file)], capture_output=True, text=True, check=True).stdout
    loop_lines = [line for line in text.partition(".text.fma_chains:")[2].splitlines() if " DFMA " in line]
    assert sum(bool(re.search(r"DFMA R\d+, R\d+, UR\d+, R\d+", line)) for line in loop_lines) >= 512


def test_the_integer_roof_is_nearly_all_multiply_adds(cache: Path, tmp_path: Path) -> None:
    body = loop("roofs/cuda_imad", "int32", "imad_chains", "IMAD", cache, tmp_path)
    assert len(body) >= 512
    assert sum(one == "IMAD" for one in body) / len(body) >= 0.98


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_the_roof_without_fma_has_none_in_its_loop(precision: str, cache: Path, tmp_path: Path) -> None:
    letter = {"fp32": "F", "fp64": "D"}[precision]
    body = loop("roofs/cuda_mul_add", precision, "mul_add_chains", f"{letter}MUL", cache, tmp_path)
    assert sum(one.startswith((f"{letter}MUL", f"{letter}ADD")) for one in body) / len(body) >= 0.98
    assert not any(one.startswith(f"{letter}FMA") for one in body)


@pytest.mark.parametrize(
    ("name", "precision", "entry", "loads", "stores"),
    [
        ("copy", "fp32", "copy", 2, 2),
        ("saxpy", "fp16", "saxpy", 8, 4),
        ("vadd", "bf16", "vadd", 8, 4),
        ("triad", "fp64", "triad", 8, 4),
        ("silu_mul", "bf16", "silu_mul", 8, 4),
        ("stencil", "fp32", "stencil", 6, 4),
        ("rmsnorm", "bf16", "rmsnorm", 12, 4),
        ("dot", "fp32", "dot", 8, 0),
        ("roofs/read", "fp32", "read", 16, 0),
    ],
)
def test_streams_move_16_bytes_at_once(
    name: str, precision: str, entry: str, loads: int, stores: int, cache: Path, tmp_path: Path
) -> None:
    code = instructions(name, precision, entry, cache, tmp_path)
    assert sum(one.startswith("LDG") and ".128" in one for one in code) >= loads
    assert sum(one.startswith("STG") and ".128" in one for one in code) >= stores


@pytest.mark.parametrize("name", ["roofs/cuda_l1", "roofs/cuda_shared"])
def test_repeated_reads_are_not_merged(name: str, cache: Path, tmp_path: Path) -> None:
    """Four passes of four reads are unrolled: sixteen reads, however equal their addresses."""
    entry, load = {"roofs/cuda_l1": ("read_l1", "LDG"), "roofs/cuda_shared": ("read_shared", "LDS")}[name]
    code = instructions(name, "fp32", entry, cache, tmp_path)
    assert sum(one.startswith(load) and ".128" in one for one in code) >= 16


@pytest.mark.parametrize(
    ("precision", "instruction"),
    [("bf16", "HGMMA"), ("fp16", "HGMMA"), ("tf32", "HGMMA"), ("fp8", "QGMMA"), ("int8", "IGMMA")],
)
def test_the_hopper_roof_uses_wgmma_without_waiting_in_between(
    precision: str, instruction: str, cache: Path, tmp_path: Path
) -> None:
    body = loop("roofs/cuda_wgmma", precision, "wgmma", instruction, cache, tmp_path)
    assert sum(one.startswith(instruction) for one in body) == 4
    assert sum(one.startswith("WARPGROUP.DEPBAR") for one in body) == 1


@pytest.mark.parametrize(
    ("name", "precision", "entry", "instruction", "count"),
    [
        ("roofs/cuda_mma_sync", "bf16", "mma_sync", "HMMA.16816", 32),
        ("roofs/cuda_mma_sync", "int8", "mma_sync", "IMMA.16832", 32),
        ("roofs/cuda_dmma", "fp64", "dmma_8x8x4", "DMMA.8", 64),
        ("roofs/cuda_dmma_wide", "fp64", "dmma_16x8x16", "DMMA.16", 8),
    ],
)
def test_tensor_products_are_computed_anew_in_every_pass(
    name: str, precision: str, entry: str, instruction: str, count: int, cache: Path, tmp_path: Path
) -> None:
    code = instructions(name, precision, entry, cache, tmp_path)
    assert sum(one.startswith(instruction) for one in code) == count


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("gemm_register", "fp64"),
        ("gemm_register", "fp32"),
        ("softmax", "fp64"),
        ("layernorm", "bf16"),
        ("stencil", "bf16"),
    ],
)
def test_the_largest_kernels_keep_everything_in_registers(
    name: str, precision: str, cache: Path, tmp_path: Path
) -> None:
    for entry, blocks in disassembled(name, precision, cache, tmp_path).items():
        assert not any(one.startswith(("STL", "LDL")) for block in blocks for one in block), entry


def test_all_that_the_compiler_said_is_kept_with_its_include_paths(tmp_path: Path) -> None:
    file = write(tmp_path, "many.cu", "".join(f"__device__ void f{i}() {{ g{i}(); }}\n" for i in range(20)))
    with pytest.raises(CompileError, match=r"^many\.cu\(1\): identifier \"g0\"") as caught:
        compile_source(file, "sm_90", {}, [tmp_path], None)
    assert all(f'identifier "g{i}"' in caught.value.log for i in range(20))
    assert f"-I{tmp_path}" in caught.value.log


def test_without_the_half_header_only_kernels_that_need_it_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roofexp.devices.cuda.code.find_header_folder", lambda major: None)
    plain = write(tmp_path, "plain.cu", 'extern "C" __global__ void plain(float* x) { x[0] = 1.0f; }\n')
    assert compile_source(plain, "sm_90", {}, [tmp_path], None)
    assert compile_source(KERNELS / "stream/saxpy.cu", "sm_90", {"ROOFEXP_FP32": 1}, [KERNELS], None)
    with pytest.raises(CompileError, match=r"cuda_bf16\.h.*looked for in .*set CUDA_HOME") as caught:
        compile_source(KERNELS / "stream/saxpy.cu", "sm_90", {"ROOFEXP_FP16": 1}, [KERNELS], None)
    assert "\n" not in str(caught.value)
