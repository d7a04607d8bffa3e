"""Exclusive use of what is measured: a lock for every GPU and for every CPU core, in a folder that all users of the
machine share. Two measurements at once on one device would both be wrong, and nothing in their records would show it.

A lock ends with the process that holds it, in whatever way that ends.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from roofexp.config.paths import cache_folder
from roofexp.devices.cpu.machine import SYSTEM
from roofexp.devices.cpu.processor import cpus_in, read_text
from roofexp.text.addresses import without_secrets

FOLDER = "ROOFEXP_LOCK_FOLDER"  # the environment's name for another folder, as where containers share a GPU
SHARED = Path("/tmp/roofexp-locks")
LOOK_S = 0.25  # between two looks at a lock that is taken
SAY_AGAIN_S = 60.0
LONGEST_COMMAND = 100  # characters of the holder's command line that are kept
Say = Callable[[str], None]


class Holder(msgspec.Struct, frozen=True):
    """Who has a lock, beside it in a file of its own: some versions of filelock empty the lock's file at every look."""

    pid: int
    command: str


class DeviceLock:
    """Locks of this process by their names, taken in one order so that two that overlap never wait for each other in a
    circle. What this process holds already is taken once more, and is free when all have let go."""

    def __init__(self, names: Iterable[str], folder: Path | None = None) -> None:
        self.names = sorted(set(names), key=lambda name: (len(name), name))
        self._folder = folder
        self._taken: list[Any] = []

    def acquire_at_once(self) -> bool:
        """All of them, or none where another process has one."""
        return self._take(lambda lock, name: _acquired(lock, 0))

    def acquire(self, say: Say) -> float:
        """Waits until all are free, with a line that names the holder; the seconds waited. What was taken is let go if
        the wait is interrupted."""
        start = time.monotonic()
        waited = False

        def wait(lock: Any, name: str) -> bool:
            nonlocal waited
            waited = waited or not _acquired(lock, 0)
            if waited:
                _wait(lock, name, start, say)
            return True

        self._take(wait)
        return time.monotonic() - start if waited else 0.0

    def release(self) -> None:
        while self._taken:
            lock = self._taken.pop()
            if getattr(lock, "lock_counter", 1) <= 1:  # this was the last of this process
                with contextlib.suppress(OSError):
                    _holder_file(lock).write_bytes(b"")
            lock.release()

    @contextlib.contextmanager
    def taken(self, say: Say) -> Iterator[None]:
        self.acquire(say)
        try:
            yield
        finally:
            self.release()

    def _take(self, take: Callable[[Any, str], bool]) -> bool:
        folder = self._folder or lock_folder()
        try:
            for name in self.names:
                lock = _lock(folder / f"{name}.lock")
                if not take(lock, name):
                    self.release()
                    return False
                self._taken.append(lock)
                _sign(lock)
        except BaseException:
            self.release()
            raise
        return True


def _wait(lock: Any, name: str, start: float, say: Say) -> None:
    what = name.replace("-", " ", 1) if name.startswith("core") else name
    if _acquired(lock, 0):
        return
    say(f"device: {what} is in use by {_holder(lock)}; waiting until it is free (Ctrl-C ends this)")
    while not _acquired(lock, SAY_AGAIN_S):
        say(f"device: waited {time.monotonic() - start:.0f} s for {what}, in use by {_holder(lock)}")


def _acquired(lock: Any, timeout_s: float) -> bool:
    """True also where there can be no lock: a measurement alone on its machine needs none."""
    from filelock import Timeout

    try:
        lock.acquire(timeout=timeout_s, poll_interval=LOOK_S)
    except Timeout:
        return False
    except (OSError, NotImplementedError) as error:
        _warn(str(Path(lock.lock_file).parent), getattr(error, "strerror", None) or type(error).__name__)
    return True


@functools.cache
def _warn(folder: str, reason: str) -> None:
    print(f"device: no lock can be taken in {folder} ({reason}); do not measure twice at once here", file=sys.stderr)


@functools.cache
def _lock(file: Path) -> Any:
    """One object for each file, so that this process may take it twice; other users may take it too."""
    from filelock import FileLock

    return FileLock(file, mode=0o666, thread_local=False)


def _holder_file(lock: Any) -> Path:
    return Path(lock.lock_file).with_suffix(".holder")


def _sign(lock: Any) -> None:
    """Leaves this process's name beside the lock; a lock serves its purpose without."""
    words = [Path(sys.argv[0]).name.replace("__main__.py", "roofexp") or "python", *sys.argv[1:]]
    holder = Holder(os.getpid(), without_secrets(" ".join(" ".join(words).split()))[:LONGEST_COMMAND])
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
        file = _holder_file(lock)
        if not file.exists():
            flags |= os.O_CREAT  # in a folder of many users no other user's file is opened with this flag
        number = os.open(file, flags, 0o666)
        with open(number, "wb") as opened:
            with contextlib.suppress(OSError):
                os.fchmod(number, 0o666)  # whatever the user's umask; refused for a file of another user
            opened.truncate()
            opened.write(msgspec.json.encode(holder))


def _holder(lock: Any) -> str:
    """As it signed; anybody may have written there."""
    try:
        number = os.open(_holder_file(lock), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(number, "rb") as opened:
            holder = msgspec.json.decode(opened.read(10 * LONGEST_COMMAND), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return "another roofexp"
    command = "".join(
        letter if letter.isprintable() else "?" for letter in without_secrets(holder.command)[:LONGEST_COMMAND]
    )
    return f"process {holder.pid} ({command})"


def lock_folder() -> Path:
    """The one that all users share; the user's own where there is none to be had."""
    named = os.environ.get(FOLDER)
    if named:
        Path(named).mkdir(parents=True, exist_ok=True)
        return Path(named)
    with contextlib.suppress(OSError):
        if not SHARED.exists():
            SHARED.mkdir(exist_ok=True)
            SHARED.chmod(0o1777)  # whatever the umask: all may write, nobody removes what is another's
    if SHARED.is_dir() and not SHARED.is_symlink() and os.access(SHARED, os.W_OK | os.X_OK):
        return SHARED
    own = cache_folder() / "locks"
    own.mkdir(parents=True, exist_ok=True)
    return own


def core_names(cores: Iterable[int]) -> list[str]:
    """Of physical cores, by the first logical CPU of each: the same whichever of its threads a process may run on."""
    siblings = (read_text(SYSTEM / f"cpu{core}/topology/thread_siblings_list") or str(core) for core in cores)
    return [f"core-{min(cpus_in(text))}" for text in siblings]


def gpu_names(machine_id: str) -> list[str]:
    """The UUID of the GPU whose records have this id, which NVML tells without opening the device; nothing where there
    is none, or no NVML: then nothing can be counted here either."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        uuids = [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    except Exception:  # pynvml raises its own kinds, and ImportError
        return []
    return [uuid for uuid in uuids if _machine_id(uuid) == machine_id]


def _machine_id(uuid: str) -> str:
    from roofexp.devices.cuda.machine import gpu_id, managed
    from roofexp.devices.nvml import Nvml

    return gpu_id(uuid, managed(Nvml(uuid, "")))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
