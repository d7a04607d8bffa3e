"""The process that owns the device. It survives a sweep, and is replaced when a kernel takes it down.

The parent never touches the device: it sends requests through a pipe and gets replies, progress, or silence.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from roofexp.devices.environment import worker_environment
from roofexp.errors import BadInputError
from roofexp.measure.bench import Bench, Progress, Reply, Request
from roofexp.measure.channel import Channel, GarbledError, Patience
from roofexp.records.machine import Machine
from roofexp.text.console import printable

START_TIMEOUT_S = 120.0
LAST_BYTES = 65536  # of what the worker printed: where its last line is looked for


class Worker:
    """``device`` as in the configuration. The process starts at the first use."""

    def __init__(self, device: str, kernel_roots: list[Path]) -> None:
        self._device = device
        self._roots = kernel_roots
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._log: Any = None
        self.machine: Machine | None = None
        self.fallback: str | None = None  # why device=auto did not take the GPU
        self.identity: dict[str, str] = {}  # what the driver's library finds the device by; kept out of records
        self.starts = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> Machine:
        """Raises BadInputError when the device asked for is not there."""
        if self._process is not None and self.machine is not None:
            return self.machine
        ours, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        command = [sys.executable, "-P", "-m", "roofexp.measure.worker", str(theirs.fileno()), self._device]
        command += [str(root) for root in self._roots]
        self._process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            env=worker_environment(self._device, self._roots),
        )  # fmt: skip
        self._channel = Channel.opened(ours)
        theirs.close()
        self.starts += 1
        hello = self._receive(Patience(START_TIMEOUT_S), lambda time_s: None)
        if isinstance(hello, Reply):
            self.stop()
            raise BadInputError(hello.reason or "the worker did not start")
        self.machine, self.fallback, self.identity = hello
        assert self.machine
        return self.machine

    def run(self, request: Request, progress: Progress = lambda time_s: None) -> Reply:
        """Measures one kernel. A crash, a hang or an exhausted memory costs this point only."""
        self.start()
        start = time.monotonic()
        try:
            self._send(request)
        except OSError:
            self.stop()  # it died between two points: nobody's fault, so the point gets a new one
            self.start()
            self._send(request)
        reply = self._receive(Patience(request.deadline_s), progress)
        if not isinstance(reply, Reply):
            raise RuntimeError("the worker answered out of turn")
        if reply.poisoned:
            self.stop()
        if not reply.measuring_s:
            reply = msgspec.structs.replace(reply, measuring_s=time.monotonic() - start)
        return reply

    def stop(self) -> None:
        """Ends the process; the next request starts a new one."""
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._channel = None

    def _send(self, request: Request) -> None:
        assert self._channel
        self._channel.number += 1
        self._channel.send(msgspec.msgpack.encode(request))

    def _receive(self, patience: Patience, progress: Progress) -> Any:
        """The next message that is not progress; a failed Reply when none comes."""
        assert self._channel
        while True:
            try:
                kind, body = msgspec.msgpack.decode(self._channel.receive(patience))
                if kind == "progress":
                    progress(float(body))
                elif kind == "hello":
                    return msgspec.convert(body[0], Machine), body[1], body[2]
                else:
                    return msgspec.convert(body, Reply)
            except TimeoutError:
                return self._given_up("timeout", "no answer within the point's time")
            except (EOFError, OSError):
                return self._post_mortem()
            except (GarbledError, msgspec.MsgspecError, TypeError, ValueError, LookupError):
                return self._given_up("crash", "something other than the worker's answer came through its pipe")

    def _given_up(self, kind: str, reason: str) -> Reply:
        self.stop()
        return Reply(status="failed", reason_kind=kind, reason=f"{reason}; worker replaced")

    def _post_mortem(self) -> Reply:
        """Why the pipe closed."""
        assert self._process
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.returncode
        self._log.seek(max(0, os.fstat(self._log.fileno()).st_size - LAST_BYTES))
        said = [line for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        last = f" ({printable(said[-1].strip()[:200])})" if said else ""
        self.stop()
        if code == -signal.SIGKILL:
            return Reply(
                status="failed", reason_kind="out of memory",
                reason=f"the worker was killed, most likely by the system for want of memory; replaced{last}",
            )  # fmt: skip
        if code is None:
            return Reply(status="failed", reason_kind="crash", reason=f"the worker closed its pipe; replaced{last}")
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return Reply(status="failed", reason_kind="crash", reason=f"the worker ended {how}; replaced{last}")


def _die_with_parent() -> None:
    """A sweep that was killed must not leave a kernel running (Linux; elsewhere the closed pipe ends the worker)."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def serve(channel: Channel, device: str, roots: list[Path]) -> None:
    """The worker's loop: one request, one reply, until the pipe closes."""
    from roofexp.devices import open_device

    def send(kind: str, body: Any) -> None:
        channel.send(msgspec.msgpack.encode((kind, body)))

    try:
        opened, fallback = open_device(device, roots)
        send("hello", (opened.machine(), fallback, opened.identity()))
    except BadInputError as error:
        send("reply", Reply(status="failed", reason_kind="bad input", reason=printable(str(error))))
        return
    bench = Bench(opened)
    while True:
        try:
            request = msgspec.msgpack.decode(channel.receive(), type=Request)
        except EOFError:
            break
        send("reply", bench.run(request, _throttled(lambda time_s: send("progress", time_s))))
    opened.close()


def _throttled(report: Callable[[float], None], every_s: float = 0.1) -> Progress:
    last = 0.0

    def progress(time_s: float) -> None:
        nonlocal last
        if time.monotonic() - last >= every_s:
            last = time.monotonic()
            report(time_s)

    return progress


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _die_with_parent()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionError):
        channel = Channel.joined(socket.socket(fileno=int(sys.argv[1])))
        serve(channel, sys.argv[2], [Path(root) for root in sys.argv[3:]])


if __name__ == "__main__":
    main()
