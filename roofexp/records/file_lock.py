"""One process at a time in what several may write, also on file systems that have no locks."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

import filelock

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)  # some network file systems have none


def locked(file: Path, timeout_s: float = -1, mode: int = 0o644) -> filelock.BaseFileLock:
    """The lock, taken; where there are none, a file that stands for it, with a line that says so. Raises
    filelock.Timeout where another process has it for longer, OSError where nothing can be written."""
    lock: filelock.BaseFileLock = filelock.FileLock(file, mode=mode, thread_local=False)
    try:
        lock.acquire(timeout=timeout_s)
    except filelock.Timeout:
        raise
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in NO_LOCKS:
            raise
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
        lock = filelock.SoftFileLock(f"{file}.soft", thread_local=False)
        lock.acquire(timeout=timeout_s)
        print(f"the file system of {file.parent} has no locks: a file, {file.name}.soft, stands for one")
    return lock


@contextlib.contextmanager
def lock_held(file: Path, timeout_s: float = -1, mode: int = 0o644) -> Iterator[None]:
    """As ``locked``, and let go in the end."""
    lock = locked(file, timeout_s, mode)
    try:
        yield
    finally:
        lock.release()
