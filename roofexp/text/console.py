"""What commands print: errors in one line, paths from the working folder, tables and the console for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

WIDTH_WITHOUT_TERMINAL = 160


SHORTEST_FOLDED = 14  # characters of a folding column on a narrow terminal


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
    text = message if message == kind else f"{kind}: {message}"
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its kind where it has none."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


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
