"""``python -m roofexp.roofs`` prints the roofs of this machine and measures those that are not stored."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from roofexp.errors import EXIT_OK, BadInputError

EXAMPLES = """examples:
  python -m roofexp.roofs                          all precisions in bursts, and the memory levels
  python -m roofexp.roofs --precision bf16,fp32    what a sweep in these precisions needs
  python -m roofexp.roofs --all                    every ceiling, and under lasting load: about two minutes on a GPU
  python -m roofexp.roofs --threads 1,2,4          a CPU's roofs with so many threads, side by side

Roofs are stored under outputs/roofs. They are measured again only when the machine, its driver or power limit, or the
benchmarks have changed."""


INTERRUPTED = "interrupted; what was measured is kept"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--device", default="auto", help="auto, cpu, cpu:2, cuda, cuda:1; several with commas")
    where.add_argument("--threads", metavar="N,N", help="the CPU with these numbers of cores, side by side")
    parser.add_argument("--precision", metavar="NAME,NAME", help="only these; else all that the device has roofs for")
    parser.add_argument("--all", action="store_true", help="every precision and ceiling, and --sustained")
    parser.add_argument("--sustained", action="store_true", help="compute roofs also until the clock has settled")
    parser.add_argument("--count", action="store_true", help="check FLOPs, bytes and pipes by hardware counters (ncu)")
    parser.add_argument("--fill", choices=["normal", "uniform", "zeros"], default="normal", help="of the operands")
    parser.add_argument("--cached", action="store_true", help="print the stored roofs and measure nothing")
    parser.add_argument("--again", action="store_true", help="measure again, even what is stored")
    parser.add_argument("--json", action="store_true", help="a list with one set of roofs per device; SI units")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="roofs are kept in its folder roofs")
    parser.add_argument("--config-dir", type=Path, metavar="FOLDER", help="a configuration folder of your own")


def devices(options: argparse.Namespace) -> list[str]:
    """The devices that the options name. Raises BadInputError for an unknown device or number of threads."""
    from roofexp.devices import parse_device

    if options.threads:
        numbers = options.threads.split(",")
        if not all(number.isdigit() and int(number) > 0 for number in numbers):
            raise BadInputError(f"--threads {options.threads}: numbers of threads with commas between them, like 1,2,4")
        return [f"cpu:{number}" for number in numbers]
    names: list[str] = options.device.split(",")
    for name in names:
        parse_device(name)
    return names


def present(names: Sequence[str], announce: Callable[[str], None]) -> list[str]:
    """The devices that have the cores asked for; announces the others. Raises BadInputError where none is left."""
    from roofexp.devices import parse_device
    from roofexp.devices.cpu.machine import missing_cores

    kept, lacking = [], []
    for device in names:
        kind, number = parse_device(device)
        reason = missing_cores(number) if kind == "cpu" else None
        if reason:
            lacking.append(f"{device} {reason}")
        else:
            kept.append(device)
    if not kept:
        raise BadInputError("; ".join(lacking))
    for line in lacking:
        announce(f"left out: {line}")
    return kept


def run(options: argparse.Namespace) -> int:
    import msgspec

    from roofexp.roofs.machine_lookup import RoofSession, Wanted

    wanted = Wanted(
        precisions=options.precision.split(",") if options.precision else [],
        extra=options.all,
        sustained=options.all or options.sustained,
        again=options.again,
        cached=options.cached,
        fill=options.fill,
    )
    folders = [options.config_dir] if options.config_dir else []
    sets = []
    with Bar() as bar:
        for device in present(devices(options), bar.announce):
            session = RoofSession(device, wanted, options.outputs, folders)
            try:
                roofs = session.roofs(bar.announce)
                if session.fallback:
                    bar.announce(f"device: {roofs.machine.name} ({session.fallback})")
                if options.count:
                    roofs = session.counted(bar.announce)
            finally:
                session.stop()
            sets.append(roofs)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(sets), indent=2).decode())
    else:
        from roofexp.roofs.table import print_roofs

        print_roofs(sets)
    return EXIT_OK


class Bar:
    """Progress on the error output, so that the table can be piped: on a terminal a bar with the running benchmark,
    elsewhere one line for each."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    @property
    def announce(self) -> Callable[[str], None]:
        return self._on_terminal if sys.stderr.isatty() else lambda line: print(line, file=sys.stderr, flush=True)

    def _on_terminal(self, line: str) -> None:
        """``roof 3 of 17: fp32 fma`` moves the bar, any other line is printed above it."""
        words = line.split(": ", 1)[0].split()
        if len(words) != 4 or words[2] != "of" or not (words[1] + words[3]).isdigit():
            (self._progress.console.print if self._progress else print)(line)
            return
        self._open()
        done, total = int(words[1]) - 1, int(words[3])
        self._progress.update(self._task, completed=done, total=total, what=line.split(": ", 1)[-1], kind=words[0])

    def _open(self) -> None:
        if self._progress is not None:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.fields[kind]}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[what]}"), transient=True, console=Console(stderr=True),
        )  # fmt: skip
        self._task = self._progress.add_task("", total=None, what="", kind="")
        self._progress.start()
