"""The messages between the program and its worker: framed, numbered and checked, because the code that is measured
runs in the worker and may write anywhere."""

from __future__ import annotations

import os
import secrets
import select
import socket
import struct
import time
import zlib

HEADER = struct.Struct("!8sIIQ")  # the conversation's own mark, the request's number, a checksum, the length in bytes
MOST_BYTES = 2**31  # a soak of an hour is a hundredth of it
SLICE_S = 1.0  # between two looks at the clock
NOTICED_S = 1.0  # a look that comes later than this was late because this process did not run


class GarbledError(Exception):
    """What came is not a message of this conversation."""


class Patience:
    """A deadline ``seconds`` from now. While this process itself is stopped (Ctrl-Z, a laptop's lid) it does not come
    nearer."""

    def __init__(self, seconds: float) -> None:
        self._seen_s = time.monotonic()
        self._until_s = self._seen_s + seconds

    def wait_for(self, readable: socket.socket) -> bool:
        """Whether there is something to read. What is there already is there, however late it is."""
        while True:
            now_s = time.monotonic()
            stopped_s = now_s - self._seen_s - SLICE_S
            if stopped_s > NOTICED_S:
                self._until_s += stopped_s
            self._seen_s = now_s
            left_s = max(0.0, min(SLICE_S, self._until_s - now_s))
            if select.select([readable], [], [], left_s)[0]:
                return True
            if left_s == 0.0:
                return False


class Channel:
    """One end. ``mark`` is what all messages of this conversation begin with; the worker is told it first of all."""

    def __init__(self, end: socket.socket, mark: bytes) -> None:
        self._end, self._mark = end, mark
        self._owner = os.getpid()
        self.number = 0  # of the request that is being answered

    @classmethod
    def opened(cls, end: socket.socket) -> Channel:
        """The program's end."""
        mark = secrets.token_bytes(8)
        end.sendall(mark)
        return cls(end, mark)

    @classmethod
    def joined(cls, end: socket.socket) -> Channel:
        """The worker's end. Raises EOFError where the program has gone."""
        return cls(end, _exactly(end, 8, None))

    def send(self, message: bytes) -> None:
        """Raises OSError where the other end has gone."""
        self._leave_copies()
        self._end.sendall(HEADER.pack(self._mark, self.number, zlib.crc32(message), len(message)) + message)

    def receive(self, patience: Patience | None = None) -> bytes:
        """The next message. The worker takes its number from it; to the program it must have the number of the request.

        Raises GarbledError, EOFError where the other end has gone, TimeoutError where patience ended, OSError.
        """
        self._leave_copies()
        mark, number, checksum, length = HEADER.unpack(_exactly(self._end, HEADER.size, patience))
        if mark != self._mark or length > MOST_BYTES:
            raise GarbledError
        message = _exactly(self._end, length, patience)
        if zlib.crc32(message) != checksum or (patience is not None and number != self.number):
            raise GarbledError
        self.number = number
        return message

    def close(self) -> None:
        self._end.close()

    def _leave_copies(self) -> None:
        """A copy of the worker that a kernel forked off must not take part in the conversation."""
        if os.getpid() != self._owner:
            os._exit(1)


def _exactly(end: socket.socket, count: int, patience: Patience | None) -> bytes:
    parts, left = [], count
    while left:
        if patience is not None and not patience.wait_for(end):
            raise TimeoutError
        part = end.recv(min(left, 2**20))
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
