"""What is printed: paths as the user knows them, widths, output that nobody reads."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
