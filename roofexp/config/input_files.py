"""Files that others may have written are read whole, with a limit, and one line says what is wrong with one.

Every function raises DamagedFileError, which names the file. ``where`` is the file as the user knows it. msgspec is
imported where records are decoded: --help reads YAML too.
"""

from __future__ import annotations

import csv
import io
import lzma
import os
from pathlib import Path
from typing import Any

from roofexp.errors import BadInputError, DamagedFileError
from roofexp.text.console import first_line, printable

MIB = 1024**2
LARGEST_BYTES = 128 * MIB
LARGEST_RECORDS = 32 * MIB  # of JSON: as Python's objects it takes up to twenty times as much
DEEPEST = 40
LONGEST_TEXT = 20_000
LARGEST_NUMBER = 1e30  # of whole numbers: what is made of them stays finite
MOST_CELLS = 4_000_000  # of a table

Rows = list[dict[str, str]]


def read_bytes(file: Path, where: str = "", largest: int = LARGEST_BYTES) -> bytes:
    """The content of a regular file: a pipe would never end."""
    where = where or str(file)
    try:
        if not file.is_file():
            raise DamagedFileError(f"{where}: cannot be read ({'not a file' if file.exists() else 'no such file'})")
        if file.stat().st_size > largest:
            raise DamagedFileError(f"{where}: larger than {largest // MIB} MiB, which no such file is")
        return file.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(f"{where}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def unpacked(file: Path, largest: int) -> bytes:
    """What an .xz file holds; more than ``largest`` bytes are refused before they are in memory."""
    packed = read_bytes(file)
    parts: list[bytes] = []
    size = 0
    try:
        while packed:  # streams may follow one another
            stream = lzma.LZMADecompressor(memlimit=LARGEST_BYTES)
            while not stream.eof:
                parts.append(stream.decompress(packed, MIB))
                packed, size = b"", size + len(parts[-1])
                if size > largest:
                    raise DamagedFileError(f"{file}: unpacks to more than {largest // MIB} MiB, which no sweep does")
                if not parts[-1] and stream.needs_input:
                    raise DamagedFileError(f"{file}: cannot be read (it is cut short)")
            packed = stream.unused_data
    except (lzma.LZMAError, EOFError) as error:
        raise DamagedFileError(f"{file}: cannot be read ({error})") from error
    return b"".join(parts)


def decode_json(data: bytes, where: str = "") -> Any:
    """JSON as plain data that can be shown: without control characters, with bounded depth, texts and numbers."""
    import msgspec

    try:
        return _shown(msgspec.json.decode(data), DEEPEST)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DamagedFileError(f"{where}: {_reason(error)}" if where else _reason(error)) from error


def as_type(value: Any, wanted: Any, where: str = "", strict: bool = True) -> Any:
    """Plain data as a record, or as whatever else msgspec converts to; not ``strict``: numbers may be texts."""
    import msgspec

    try:
        return msgspec.convert(value, wanted, strict=strict)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise DamagedFileError(f"{where}: {_reason(error)}" if where else _reason(error)) from error


def read_json(file: Path, wanted: Any, where: str = "") -> Any:
    """A JSON file as a record of the type ``wanted``."""
    where = where or str(file)
    return as_type(decode_json(read_bytes(file, where, LARGEST_RECORDS), where), wanted, where)


def shown(value: Any, where: str) -> Any:
    """Plain data as ``decode_json`` gives it."""
    try:
        return _shown(value, DEEPEST)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{where}: {error}") from error


def parse_table(data: bytes, where: str) -> Rows:
    """CSV with a header as rows of text. A cell that a row lacks is empty."""
    rows: Rows = []
    try:
        reader = csv.reader(io.StringIO(data.decode(), newline=""))
        header = [_shown(name, 1) for name in next(reader, [])]
        if len(set(header)) < len(header):
            raise ValueError("a column stands twice")
        for cells in reader:
            if len(cells) > len(header):
                raise ValueError(f"line {reader.line_num} has {len(cells)} cells for {len(header)} columns")
            if len(rows) * len(header) > MOST_CELLS:
                raise ValueError(f"more than {MOST_CELLS} cells")
            if cells:
                cells += [""] * (len(header) - len(cells))
                rows.append({name: _shown(cell, 1) for name, cell in zip(header, cells, strict=True)})
    except (csv.Error, ValueError) as error:
        raise DamagedFileError(f"{where}: not a table ({_reason(error)})") from error
    return rows


def read_table(file: Path, where: str = "") -> Rows:
    """A CSV file as ``parse_table`` gives it."""
    return parse_table(read_bytes(file, where), where or str(file))


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return f"nested more than {DEEPEST} deep"
    return printable(first_line(error))[:200]


def _shown(value: Any, deepest: int) -> Any:
    if isinstance(value, str):
        text = printable(value)
        return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
    if isinstance(value, (dict, list)) and not deepest:
        raise ValueError(f"nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        return {_shown(key, 1): _shown(part, deepest - 1) for key, part in value.items()}
    if isinstance(value, list):
        return [_shown(part, deepest - 1) for part in value]
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        raise ValueError(f"a whole number above {LARGEST_NUMBER:.0e}")
    return value


def refuse_links_out(folder: Path) -> None:
    """Raises BadInputError naming the first link in ``folder`` that leads out of it, through which a stranger's folder
    would have its reader's files read, packed or written over. The folder itself may be a link."""
    root = folder.resolve()
    waiting = [root]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:  # not a folder, or one that cannot be read, which those who read it say
            continue
        for entry in entries:
            if entry.is_symlink() and not _inside(entry.path, root):
                shown = folder / Path(entry.path).relative_to(root)
                raise BadInputError(f"{shown}: a link out of the folder; put there what it leads to, or remove it")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))


def _inside(link: str, root: Path) -> bool:
    """False for a link in a circle too, which leads nowhere."""
    try:
        return Path(link).resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return False
