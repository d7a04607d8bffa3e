"""Ctrl-C and SIGTERM end a sweep, and what was measured stays.

Python loses the exception of a signal that arrives while it tidies up an object; it is raised again at the next job.
"""

from __future__ import annotations

import signal
from types import FrameType

_asked = False


def listen() -> None:
    """From now on either signal raises KeyboardInterrupt. Where the shell ignores Ctrl-C, as for a job in the
    background, that stays so."""
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)


def asked() -> bool:
    """Whether somebody has asked for the end."""
    return _asked


def raise_again() -> None:
    """Raises KeyboardInterrupt where the end was asked for and the exception got lost."""
    if _asked:
        raise KeyboardInterrupt


def _end(number: int, frame: FrameType | None) -> None:
    global _asked
    _asked = True
    raise KeyboardInterrupt
