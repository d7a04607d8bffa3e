"""Compiles the benchmarks of the roofs in advance and checks that their hot loops hold the intended instructions.

NVIDIA's disassembler reads what was compiled, without a GPU; where it is not installed nothing is checked.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from roofexp.config.paths import find_kernel_file, kernel_roots
from roofexp.devices.cuda.code import compile_cache, defines_of, entries_of, least_capability
from roofexp.kernel import Kernel
from roofexp.records.machine import Machine, RoofCheck
from roofexp.roofs.benchmark import Benchmark

CURE = "pip install nvidia-cuda-nvdisasm"
_ENTRY = re.compile(r"\.text\.(\w+):")
_INSTRUCTION = re.compile(r"\s+/\*\w{4,}\*/\s+(?:@!?U?P\w+ )?\s*([A-Z][\w.]*)")
Blocks = list[list[str]]  # mnemonics in order, a list for each block of code that is entered at one place


@functools.cache
def find_disassembler() -> str | None:
    """nvdisasm on the PATH, in NVIDIA's wheel or in a CUDA toolkit."""
    found = shutil.which("nvdisasm")
    if found is None:
        try:
            from cuda.pathfinder import find_nvidia_binary_utility

            found = find_nvidia_binary_utility("nvdisasm")
        except Exception:  # an older release, or none
            return None
    return found


def disassemble(cubin: bytes) -> dict[str, Blocks]:
    """The mnemonics of each function, predicates cut off. Raises RuntimeError where the disassembler cannot."""
    tool = find_disassembler()
    if tool is None:
        raise RuntimeError(f"nvdisasm was not found: {CURE}")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"nvdisasm: {(done.stderr.strip().splitlines() or ['no reason given'])[0]}")
    return parse_disassembly(done.stdout)


def parse_disassembly(text: str) -> dict[str, Blocks]:
    blocks: Blocks = []
    found: dict[str, Blocks] = {}
    for line in text.splitlines():
        if match := _ENTRY.match(line):
            found[match[1]] = blocks = [[]]
        elif line.startswith(".L_"):
            blocks.append([])
        elif (match := _INSTRUCTION.match(line)) and blocks:
            blocks[-1].append(match[1])
    return found


def hot_loop(blocks: Blocks, instruction: str) -> list[str]:
    """The block with most of an instruction: the body of the unrolled loop."""
    return max(blocks, key=lambda block: sum(one.startswith(instruction) for one in block))


def instruction_check(blocks: Blocks, instruction: str, share: float) -> RoofCheck:
    """Whether the loop holds the instruction, and little else where ``share`` asks for that."""
    body = hot_loop(blocks, instruction)
    count = sum(one.startswith(instruction) for one in body)
    found = count / len(body) if body else 0.0
    kinds = Counter(one for one in body if one.startswith(instruction))
    said = ", ".join(f"{number} {name}" for name, number in kinds.most_common(3)) or f"no {instruction}"
    return RoofCheck(
        name="instructions",
        passed=count > 0 and found >= share,
        expected=share,
        found=found,
        message=f"{said} of {len(body)} instructions in the loop",
    )


PATIENCE_S = 20.0  # for what is left to check when all is measured


class BenchmarkKernel(msgspec.Struct, frozen=True):
    benchmark: Benchmark
    kernel: Kernel


class Plan(msgspec.Struct, frozen=True):
    architecture: str  # sm_90
    roots: list[str]
    items: list[BenchmarkKernel]


class CompileAhead:
    """Starts at once; ``checks`` waits for its end. On a CPU, and for kernels of libraries, there is nothing to do."""

    def __init__(self, machine: Machine, kernels: Sequence[tuple[Benchmark, Kernel]], folders: list[Path]) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        architecture = machine.details.get("architecture")
        items = [BenchmarkKernel(b, k) for b, k in kernels if "cuda" in k.implementations]
        if machine.device != "cuda" or not architecture or not items:
            return
        plan = Plan(f"sm_{str(architecture).replace('.', '')}", [str(root) for root in kernel_roots(folders)], items)
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "roofexp.roofs.precompile"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, env=_environment(),
            )  # fmt: skip
            assert self._process.stdin
            self._process.stdin.write(msgspec.msgpack.encode(plan))
            self._process.stdin.close()
            self._process.stdin = None

    def checks(self) -> dict[str, RoofCheck]:
        """What the machine code of each benchmark holds, by its name; nothing where that could not be found out."""
        if self._process is None:
            return {}
        try:
            said, _ = self._process.communicate(timeout=PATIENCE_S)
            return msgspec.msgpack.decode(said, type=dict[str, RoofCheck])
        except (subprocess.TimeoutExpired, msgspec.MsgspecError, OSError):
            return {}

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _environment() -> dict[str, str]:
    from roofexp.devices.environment import worker_environment

    return worker_environment("cuda")


def compile_item(item: BenchmarkKernel, architecture: str, roots: list[Path], cache: Path | None) -> bytes | None:
    """The machine code; None for a kernel that this GPU cannot run."""
    from roofexp.devices.cuda.code import compile_source

    code = item.kernel.implementations["cuda"]
    only, number = code.get("arch"), int(architecture.removeprefix("sm_"))
    if number < least_capability(item.kernel) or (only and only.rstrip("af") != architecture):
        return None
    file = find_kernel_file(code["source"], roots, item.benchmark.name)
    return compile_source(file, only or architecture, defines_of(item.kernel), roots, cache)


def look_at(item: BenchmarkKernel, cubin: bytes) -> RoofCheck | None:
    """None for a benchmark that names no instruction, and where there is no disassembler."""

    benchmark, code = item.benchmark, item.kernel.implementations["cuda"]
    if benchmark.instruction is None or find_disassembler() is None:
        return None
    (entry, *_) = entries_of(code)
    return instruction_check(disassemble(cubin)[entry], benchmark.instruction, benchmark.share)


def main() -> None:
    plan = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Plan)
    roots, cache = [Path(root) for root in plan.roots], compile_cache()
    compiled: list[tuple[BenchmarkKernel, bytes]] = []
    for item in plan.items:  # all of them first: somebody waits for the code, nobody yet for the checks
        with contextlib.suppress(Exception):  # the worker says what is wrong with it
            cubin = compile_item(item, plan.architecture, roots, cache)
            compiled += [(item, cubin)] if cubin else []
    checks = {}
    for item, cubin in compiled:
        with contextlib.suppress(Exception):
            if check := look_at(item, cubin):
                checks[item.benchmark.name] = check
    sys.stdout.buffer.write(msgspec.msgpack.encode(checks))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
