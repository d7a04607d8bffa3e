"""What was done to a GPU's clocks, on disk before it is done, so that it can be undone after any death.

One file for each GPU in the user's cache folder. Beside it lies a lock that its owner holds open: the system lets it go
when the owner dies, in whatever way, so a journal whose lock is free was left behind.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofexp.clocks.refused import RefusedError
from roofexp.point import write_json


class Entry(msgspec.Struct, frozen=True, kw_only=True):
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


def new_entry(uuid: str, by: Literal["nvml", "ncu"], asked: str, **facts: Any) -> Entry:
    import psutil

    return Entry(
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
            cause = f"no journal can be kept in {self.file.parent} ({error.strerror or error})"
            raise RefusedError(f"{cause}; without one clocks are not touched") from error

    def let_go(self) -> None:
        self._lock.release(force=True)

    def write(self, entry: Entry) -> None:
        """On the disk when it returns. Raises RefusedError where it cannot be written."""
        try:
            write_json(self.file, entry)
            _sync(self.file.parent)
        except OSError as error:
            cause = f"no journal can be kept in {self.file.parent} ({error.strerror or error})"
            raise RefusedError(f"{cause}; without one clocks are not touched") from error

    def read(self) -> Entry | None:
        """None where there is none or it cannot be read; ``exists`` tells them apart."""
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=Entry)
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
