"""Signals while clocks are held: what is being undone is finished first, and no signal ends the process before it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
INTERRUPTING = (signal.SIGINT, *ENDING)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Signals that arrive meanwhile are sent again afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {number: signal.signal(number, lambda found, frame: arrived.append(found)) for number in INTERRUPTING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for number in dict.fromkeys(arrived):
            os.kill(os.getpid(), number)


class EndingGuard:
    """Signals whose default is to end the process on the spot run ``undo`` first. Handlers of others are left alone."""

    def __init__(self, undo: Callable[[], Any]) -> None:
        self._undo = undo
        self._taken: list[int] = []

    def install(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._taken = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
            for number in self._taken:
                signal.signal(number, self._end)

    def remove(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in self._taken:
                if signal.getsignal(number) == self._end:
                    signal.signal(number, signal.SIG_DFL)
        self._taken = []

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._undo()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
