"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec


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
