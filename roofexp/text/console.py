"""What commands print: errors in one line, paths from the working folder, tables and the console for them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from roofexp.text.addresses import without_secrets

WIDTH_WITHOUT_TERMINAL = 160


SHORTEST_FOLDED = 14  # characters of a folding column on a narrow terminal

# what no terminal, page or XML file can show: controls but tab and newline, marks that reverse the reading or end a
# line, surrogates, and what is no character
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def printable(text: str) -> str:
    """Text from anywhere as it can be shown everywhere: other characters are written as their numbers, ``\\x1b``, and
    a byte that is no character (a surrogate, to Python) as its own."""
    return text if text.isprintable() else UNPRINTABLE.sub(lambda found: _as_number(found[0]), text)


def _as_number(letter: str) -> str:
    number = ord(letter)
    if 0xDC80 <= number <= 0xDCFF:
        number -= 0xDC00
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def prepare_output() -> None:
    """Printing never ends a command for a character that the output cannot show, nor where an output is closed. What
    is opened later must not get the number of an output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (lives as long as the process)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class LastingOutput(io.RawIOBase):
    """An output file that takes what it is given also when its reader has left or its disk is full: a measurement is
    worth more than what is printed of it."""

    def __init__(self, number: int) -> None:
        self._number = number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Any) -> int:
        try:
            return os.write(self._number, data)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._number)
            return len(data)


def keep_printing() -> None:
    """From here on nothing that is printed can end the command."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__") and isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):
                stream.flush()
            lasting = io.BufferedWriter(LastingOutput(stream.fileno()))
            buffered = name == "stdout" and not stream.isatty()
            kept = io.TextIOWrapper(lasting, stream.encoding, "backslashreplace", line_buffering=not buffered)
            setattr(sys, name, kept)


def explain_disk(error: OSError, unnamed: str = "outputs") -> str:
    """A file that could not be written or read, by the path that the user knows, and why. ``unnamed`` is said where
    the error has no path."""
    path = os.path.relpath(error.filename) if error.filename else unnamed
    return f"{error.filename if path.startswith('..') and error.filename else path}: {error.strerror or error}"


def drop_output() -> None:
    """Discards what is printed from now on: nobody reads the standard output any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def relative(path: Path) -> str:
    """From the working folder where that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def one_line(error: BaseException, longest: int = 300) -> str:
    """The kind of an error and the first line of its message, at most ``longest`` characters."""
    kind, message = type(error).__name__, first_line(error)
    return shortened(message if message == kind else f"{kind}: {message}", longest)


def shortened(text: str, longest: int) -> str:
    """At most ``longest`` characters of a text that may be of any length."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, printable; its kind where it has none."""
    try:
        lines = without_secrets(printable(str(error).replace("\r\n", "\n"))).split("\n")
    except Exception:  # of somebody else's class
        lines = []
    return next((line.strip() for line in lines if line.strip()), type(error).__name__)


def open_console(width: int = WIDTH_WITHOUT_TERMINAL) -> Any:
    """The console of rich. A file or a pipe has no edge: its lines are ``width`` characters, or as COLUMNS says."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=width)


def plain_table(columns: Sequence[str], right: Collection[str] = (), folding: Collection[str] | None = None) -> Any:
    """An empty table of rich without a frame, as every command prints it. Columns in ``folding`` take several lines
    where their text does not fit; the others are cut there."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        folds = name in (folding or ())
        table.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=not folds,
            overflow="fold" if folds else "ellipsis",
            min_width=SHORTEST_FOLDED if folds else None,
        )
    return table
