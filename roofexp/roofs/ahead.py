"""The GPU's roof kernels are compiled ahead by another process while the first of them are measured, and their machine
code is looked at there. Nothing depends on it: what is not compiled yet the worker compiles itself.

python -m roofexp.roofs.ahead < PLAN > CHECKS
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from roofexp.devices.cuda_code import compile_cache, defines_of, entries_of, least_capability
from roofexp.folders import find_kernel_file, kernel_roots
from roofexp.kernel import Kernel
from roofexp.machine import Machine, RoofCheck
from roofexp.roofs.benchmark import Benchmark

PATIENCE_S = 20.0  # for what is left to check when all is measured


class Item(msgspec.Struct, frozen=True):
    benchmark: Benchmark
    kernel: Kernel


class Plan(msgspec.Struct, frozen=True):
    architecture: str  # sm_90
    roots: list[str]
    items: list[Item]


class CompileAhead:
    """Starts at once; ``checks`` waits for its end. On a CPU, and for kernels of libraries, there is nothing to do."""

    def __init__(self, machine: Machine, kernels: Sequence[tuple[Benchmark, Kernel]], folders: list[Path]) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        architecture = machine.details.get("architecture")
        items = [Item(b, k) for b, k in kernels if "cuda" in k.implementations]
        if machine.device != "cuda" or not architecture or not items:
            return
        plan = Plan(f"sm_{str(architecture).replace('.', '')}", [str(root) for root in kernel_roots(folders)], items)
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "roofexp.roofs.ahead"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
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
    from roofexp.worker import worker_environment

    return worker_environment("cuda")


def compile_item(item: Item, architecture: str, roots: list[Path], cache: Path | None) -> bytes | None:
    """The machine code; None for a kernel that this GPU cannot run."""
    from roofexp.devices.nvrtc import compile_source

    code = item.kernel.implementations["cuda"]
    only, number = code.get("arch"), int(architecture.removeprefix("sm_"))
    if number < least_capability(item.kernel) or (only and only.rstrip("af") != architecture):
        return None
    file = find_kernel_file(code["source"], roots, item.benchmark.name)
    return compile_source(file, only or architecture, defines_of(item.kernel), roots, cache)


def look_at(item: Item, cubin: bytes) -> RoofCheck | None:
    """None for a benchmark that names no instruction, and where there is no disassembler."""
    from roofexp.roofs.instructions import disassemble, find_disassembler, instruction_check

    benchmark, code = item.benchmark, item.kernel.implementations["cuda"]
    if benchmark.instruction is None or find_disassembler() is None:
        return None
    (entry, *_) = entries_of(code)
    return instruction_check(disassemble(cubin)[entry], benchmark.instruction, benchmark.share)


def main() -> None:
    plan = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Plan)
    roots, cache = [Path(root) for root in plan.roots], compile_cache()
    compiled: list[tuple[Item, bytes]] = []
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
