"""Files are written whole or not at all, and by one process at a time where several may write."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from filelock import BaseFileLock

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)  # some network file systems have none

FORMULA = re.compile(r"\s*[=@+\-＝＠＋－]|[\t\r\n]")  # a spreadsheet runs it, in full width too
NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)|-")


def write_atomically(path: Path, data: bytes) -> None:
    """Either the whole file is there afterwards or the old one still is."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk names no file
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Any record as indented JSON, atomically."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def table_bytes(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> bytes:
    """Rows as CSV; ``columns``: those of all rows, in the order in which they first appear. None is an empty cell.

    A text that a spreadsheet would take for a formula gets a quote before it.
    """
    rows = list(rows)
    columns = list(dict.fromkeys(key for row in rows for key in row)) if columns is None else columns
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue().encode(errors="replace")


def write_table(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
    """Rows as a CSV file, atomically."""
    write_atomically(path, table_bytes(rows, columns))


def _cell(value: Any) -> Any:
    if not isinstance(value, str) or not value:
        return value
    value = value.replace("\0", "")
    return f"'{value}" if FORMULA.match(value) and not NUMBER.fullmatch(value) else value


def locked(file: Path, timeout_s: float = -1, mode: int = 0o644) -> BaseFileLock:
    """The lock, taken; where there are none, a file that stands for it, with a line that says so. Raises
    filelock.Timeout where another process has it for longer, OSError where nothing can be written."""
    import filelock

    lock: BaseFileLock = filelock.FileLock(file, mode=mode, thread_local=False)
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
