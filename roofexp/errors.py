"""What can go wrong with an input, and the exit codes that say so."""

from __future__ import annotations

EXIT_OK = 0
EXIT_POINT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


class BadInputError(Exception):
    """An input that cannot be used. The message is one line: what, where, and what is allowed."""


class DamagedFileError(BadInputError, ValueError):
    """A file of a sweep that is cut short, foreign or of other types: the rest of the sweep may be readable."""


class SkippedError(Exception):
    """This point cannot run on this device: an outcome, not a fault. The message is the reason."""


class FailedError(Exception):
    """This point ran and gave nothing usable. ``kind`` is a short name of the cause."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
