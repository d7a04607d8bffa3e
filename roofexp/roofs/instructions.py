"""What a roof's machine code holds: a kernel that compiles can still miss the instructions that it is about.

NVIDIA's disassembler reads what was compiled, without a GPU; where it is not installed nothing is checked.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from collections import Counter

from roofexp.machine import RoofCheck

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
