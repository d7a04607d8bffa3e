"""Ctrl-C, SIGTERM and SIGHUP end a sweep, and what was measured stays.

Python loses the exception of a signal that arrives while it tidies up an object; it is raised again at the next job.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """Whether somebody has asked for the end of this process, and what a signal does about it."""

    def __init__(self) -> None:
        self.asked = False
        self._finishing = False

    def listen(self) -> None:
        """From now on each of the signals raises KeyboardInterrupt. Where the shell ignores Ctrl-C or a hang-up, as for
        a job in the background or under nohup, that stays so."""
        for number in (*ENDING, signal.SIGINT):
            if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._end)

    def raise_again(self) -> None:
        """Raises KeyboardInterrupt where the end was asked for and the exception got lost."""
        if self.asked:
            raise KeyboardInterrupt

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """While tables, figures and the report are made a signal is noted and nothing is torn apart: the end is near.
        The second one raises KeyboardInterrupt, for what can be made later; the third ends the process at once."""
        self._finishing, self._ignored = True, 0
        try:
            yield
        finally:
            self._finishing = False

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if not self._finishing:
            raise KeyboardInterrupt
        self._ignored += 1
        if self._ignored > 2:
            os._exit(128 + number)
        if self._ignored == 2:
            raise KeyboardInterrupt
        if number != signal.SIGHUP:  # after a hang-up nobody reads
            print(
                "stopping: tables are being written; press Ctrl-C again to leave figures and page out",
                file=sys.stderr,
                flush=True,
            )
