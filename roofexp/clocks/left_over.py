"""Clocks that a killed run left behind, found by its journal and given back at the next start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from roofexp.clocks.journal import Entry, Journal, boot_id
from roofexp.clocks.ncu_hold import reset
from roofexp.clocks.nvml_lock import NvmlLock
from roofexp.clocks.refused import RefusedError
from roofexp.devices.nvml import Nvml

OpenNvml = Callable[[str], Nvml | None]  # by UUID; None where the GPU or NVML is not there


def restore_left_over(folder: Path, open_nvml: OpenNvml) -> list[str]:
    """A line for each GPU whose clocks were given back, or could not be. Without journals NVML is not even opened."""
    said = []
    for journal, entry in left_over(folder):
        try:
            said.append(restore(journal, entry, open_nvml))
        except RefusedError as error:
            said.append(f"clocks: {_whose(entry)} left {_what(journal, entry)}: {error}. {by_hand(journal.uuid)}")
    return [line for line in said if line]


def left_over(folder: Path) -> Iterator[tuple[Journal, Entry | None]]:
    """Journals without a living owner; each is this process's own while it is looked at, so that no two starts meet."""
    for file in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        journal = Journal(folder, file.stem)
        try:
            journal.acquire()
        except RefusedError:
            continue
        try:
            entry = journal.read()
            if journal.exists and (entry is None or not entry.owner_lives()):
                yield journal, entry
        finally:
            journal.let_go()


def by_hand(uuid: str) -> str:
    """What a person with rights can do."""
    return f"By hand: nvidia-smi -i {uuid} --reset-gpu-clocks"


def restore(journal: Journal, entry: Entry | None, open_nvml: OpenNvml) -> str:
    """Gives the clocks back and removes the journal; the line to say, empty where there was nothing to give back.

    Raises RefusedError where that is not possible; the journal then stays.
    """
    if entry is not None and entry.boot != boot_id():  # no lock survives a start of the machine
        journal.remove()
        return ""
    if entry is not None and entry.by == "ncu" and entry.ncu:
        reset(Path(entry.ncu))
    else:
        nvml = open_nvml(entry.uuid if entry else journal.uuid)
        if nvml is None:
            raise RefusedError("that GPU, or NVML, is not there now; the next start tries again")
        NvmlLock(nvml).undo()
    journal.remove()
    return f"clocks: {_whose(entry)} left {_what(journal, entry)}; they are given back"


def _whose(entry: Entry | None) -> str:
    return f"a run that was killed (process {entry.pid})" if entry else "a run whose journal cannot be read"


def _what(journal: Journal, entry: Entry | None) -> str:
    asked = f" at {entry.asked}" if entry else " locked, perhaps"
    return f"the clocks of {journal.uuid}{asked}"
