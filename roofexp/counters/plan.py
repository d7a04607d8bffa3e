"""What the process under ncu is told to run, and what it says of its progress: files between two processes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from roofexp.kernel import Kernel

State = Literal["ready", "start", "done", "refused", "failed", "timeout"]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One launch to be counted. ``name`` is its NVTX range, by which its kernels are found in the report."""

    name: str
    kernel: Kernel
    implementation: str
    seed: int
    hot: bool


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """``parent`` is the process whose end ends this one; ``machine_name`` the GPU that was measured, where known."""

    device: str  # cuda or cuda:<index>
    roots: list[str]
    tasks: list[Task]
    timeout_s: float
    parent: int
    machine_name: str | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the progress file. refused: this point only; failed: the process cannot go on."""

    state: State
    name: str = ""
    reason: str = ""
    machine_id: str = ""  # of ready: the GPU that was opened
    machine_name: str = ""
    pid: int = 0


class ProgressFile:
    """Steps as lines, each written at once: what was said last is known after any end."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def say(self, step: Step) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(step) + b"\n")

    def read(self) -> list[Step]:
        """A last line that was cut short is left out."""
        steps = []
        for line in self.path.read_bytes().splitlines() if self.path.exists() else []:
            try:
                steps.append(msgspec.json.decode(line, type=Step))
            except msgspec.MsgspecError:
                continue
        return steps


def at_work(steps: list[Step]) -> str | None:
    """The task that was begun last and not ended."""
    begun: str | None = None
    for step in steps:
        if step.state == "start":
            begun = step.name
        elif step.state in ("done", "refused") and step.name == begun:
            begun = None
    return begun
