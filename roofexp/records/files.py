"""Files are written whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

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
