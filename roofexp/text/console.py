"""What is printed: paths as the user knows them, widths, output that nobody reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

WIDTH_WITHOUT_TERMINAL = 160


def explain_disk(error: OSError) -> str:
    """A file that could not be written or read, by the path that the user knows, and why."""
    path = os.path.relpath(error.filename) if error.filename else "outputs"
    return f"{error.filename if path.startswith('..') else path}: {error.strerror or error}"


def drop_output() -> None:
    """For a standard output that nobody reads any more: what is written from now on goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def relative(path: Path) -> str:
    """From the working folder where that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def one_line(error: BaseException, longest: int = 300) -> str:
    """An error for a person: its kind and the first line that it says, cut where nobody reads on."""
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def plain_table(columns: Sequence[str], right: Collection[str] = (), folding: Mapping[str, int] | None = None) -> Any:
    """An empty table of rich's without a frame, as every command prints it. Columns keep their whole text; those in
    ``folding`` (name: share of the width) take several lines where it does not fit."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        ratio = (folding or {}).get(name)
        table.add_column(
            name, justify="right" if name in right else "left", no_wrap=ratio is None, overflow="fold", ratio=ratio
        )
    return table
