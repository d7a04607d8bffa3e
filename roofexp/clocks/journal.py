"""What is done to a GPU's clocks is written to disk first, so that it can be undone however the process ends.

There is one journal for each GPU in the user's cache folder. Its owner holds the lock file beside it, which the system
releases when the owner dies: a journal whose lock is free was left behind.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from roofexp.clocks.lock_methods import NvmlLock, allowed_mhz, clock_controls, reset, why_shared
from roofexp.config.paths import cache_folder
from roofexp.devices.nvml import NEEDS_RIGHTS, Nvml, RefusedError
from roofexp.errors import BadInputError
from roofexp.records.files import write_json


class HoldRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``was``: the clocks before, for the reader; NVML does not tell whether a lock was set already."""

    version: int = 1
    uuid: str
    by: Literal["nvml", "ncu"]
    asked: str
    ncu: str | None = None
    was: dict[str, float | None] = {}
    pid: int
    process_started: float  # UNIX time: a number is used again, this is not
    boot: str
    taken: str

    def owner_lives(self) -> bool:
        """Whether the process that wrote this is still there (where file locks do not work, this is what is left)."""
        import psutil

        if self.pid == os.getpid() or self.boot != boot_id():
            return False
        with contextlib.suppress(psutil.Error):
            started: float = psutil.Process(self.pid).create_time()
            return abs(started - self.process_started) < 1.0
        return False


def new_record(uuid: str, by: Literal["nvml", "ncu"], asked: str, **facts: Any) -> HoldRecord:
    import psutil

    return HoldRecord(
        uuid=uuid,
        by=by,
        asked=asked,
        pid=os.getpid(),
        process_started=psutil.Process().create_time(),
        boot=boot_id(),
        taken=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **facts,
    )


class Journal:
    """That of one GPU."""

    def __init__(self, folder: Path, uuid: str) -> None:
        from filelock import FileLock

        self.uuid = re.sub(r"[^\w-]", "_", uuid)
        self.file = folder / f"{self.uuid}.json"
        self._lock = FileLock(str(folder / f"{self.uuid}.lock"))

    def acquire(self) -> None:
        """Raises RefusedError while another process has it, and where no journal can be kept."""
        from filelock import Timeout

        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise RefusedError("another roofexp holds this GPU's clocks; wait for its end") from None
        except OSError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: OSError) -> RefusedError:
        cause = f"no journal can be kept in {self.file.parent} ({error.strerror or error})"
        return RefusedError(f"{cause}; without one clocks are not touched")

    def let_go(self) -> None:
        self._lock.release(force=True)

    def write(self, entry: HoldRecord) -> None:
        """On the disk when it returns. Raises RefusedError where it cannot be written."""
        try:
            write_json(self.file, entry)
            _sync(self.file.parent)
        except OSError as error:
            raise self._refusal(error) from error

    def read(self) -> HoldRecord | None:
        """None where there is none or it cannot be read; ``exists`` tells them apart."""
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=HoldRecord)
        except (OSError, msgspec.MsgspecError):
            return None

    @property
    def exists(self) -> bool:
        return self.file.exists()

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            _sync(self.file.parent)


def boot_id() -> str:
    """Another after every start of the machine: no lock on clocks survives one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import psutil

        return f"{psutil.boot_time():.0f}"


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


OpenNvml = Callable[[str], Nvml | None]  # by UUID; None where the GPU or NVML is not there


def restore_left_over(folder: Path, open_nvml: OpenNvml) -> list[str]:
    """A line for each GPU whose clocks were given back, or could not be. Without journals NVML is not even opened."""
    lines = []
    for journal, entry in left_over(folder):
        try:
            lines.append(restore(journal, entry, open_nvml))
        except RefusedError as error:
            lines.append(f"clocks: {_what(journal, entry)}: {error}. {by_hand(journal.uuid)}")
    return [line for line in lines if line]


def left_over(folder: Path) -> Iterator[tuple[Journal, HoldRecord | None]]:
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


def restore(journal: Journal, entry: HoldRecord | None, open_nvml: OpenNvml) -> str:
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
    return f"clocks: {_what(journal, entry)}; they are given back"


def _what(journal: Journal, entry: HoldRecord | None) -> str:
    if entry is None:
        return f"a run whose journal cannot be read left the clocks of {journal.uuid} locked, perhaps"
    return f"a run that was killed (process {entry.pid}) left the clocks of {journal.uuid} at {entry.asked}"


def open_gpu(uuid: str) -> Nvml | None:
    """NVML for the GPU of this UUID and no other; None where it, the library or the driver is missing."""
    try:
        return Nvml(uuid, "")
    except Exception:  # pynvml raises its own kinds, and ImportError
        return None


def ncu_or_none() -> Path | None:
    from roofexp.ncu import find_ncu

    with contextlib.suppress(BadInputError):
        return find_ncu(None)
    return None


def give_back() -> list[str]:
    """Gives back clocks that a killed run left held; a line for each GPU."""
    return restore_left_over(cache_folder() / "clocks", open_gpu)


class ModeVerdict(NamedTuple):
    """On one or more modes. ``cure`` is empty where nothing stands in the way."""

    modes: str
    allowed: bool
    says: str
    cure: str = ""


def allowed_modes(nvml: Nvml | None, ncu: Path | None, journals: Path) -> Iterator[ModeVerdict]:
    """``nvml`` None: no GPU, or one that NVML does not see."""
    yield ModeVerdict("observe, duty", True, "always: they change nothing")
    if nvml is None:
        yield ModeVerdict(
            "base, boost, locked", False, "need an NVIDIA GPU that NVML sees", "clock=observe or clock=duty"
        )
        return
    trouble = _trouble(nvml)
    yield _locked(nvml, trouble)
    yield from _by_ncu(ncu, trouble)
    for journal, entry in left_over(journals):
        message = f"a killed run left {entry.asked if entry else 'an unknown clock'}; the next sweep gives it back"
        yield ModeVerdict("left over", False, message, by_hand(journal.uuid))


def _trouble(nvml: Nvml) -> tuple[str, str] | None:
    """What stands in the way of every lock, and the cure."""
    try:
        shared = why_shared(nvml, None)
    except RefusedError as error:
        return str(error), "clock=duty"
    return (f"{shared}: a lock would be theirs too", "clock.shared=true, or wait") if shared else None


def _locked(nvml: Nvml, trouble: tuple[str, str] | None) -> ModeVerdict:
    span = allowed_mhz(nvml)
    clocks = f"clock.mhz from {span[0]} to {span[1]}" if span else "the driver does not say which clocks"
    if trouble:
        return ModeVerdict("locked", False, f"{clocks}; {trouble[0]}", trouble[1])
    if os.geteuid() != 0:
        return ModeVerdict("locked", False, f"{clocks}; drivers give this right to administrators only", NEEDS_RIGHTS)
    return ModeVerdict("locked", True, f"{clocks}; allowed unless the container or a virtual GPU forbids it")


def _by_ncu(ncu: Path | None, trouble: tuple[str, str] | None) -> Iterator[ModeVerdict]:
    if ncu is None:
        yield ModeVerdict("base, boost", False, "need Nsight Compute (ncu)", "install it")
        return
    offered = clock_controls(ncu)
    for mode in ("base", "boost"):
        if offered is not None and mode not in offered:
            yield ModeVerdict(mode, False, f"this ncu does not have it (2025.4 or newer), only {', '.join(offered)}")
        elif trouble:
            yield ModeVerdict(mode, False, *trouble)
        else:
            yield ModeVerdict(mode, True, "this ncu has it; needs the right to read counters")
