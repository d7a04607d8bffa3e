"""Holding the clocks of a GPU from the first point that asks for it until the end of the process, however it ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import msgspec

from roofexp.clocks import HELD, NOTHING_SET, asked_for, roofs_mode
from roofexp.clocks.journal import Journal, OpenNvml, by_hand, new_record, restore
from roofexp.clocks.lock_methods import NcuHold, NvmlLock, why_shared
from roofexp.devices.nvml import Nvml, RefusedError
from roofexp.records.point import Clock, Flag

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
INTERRUPTING = (signal.SIGINT, *ENDING)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Signals that arrive meanwhile are sent again afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {number: signal.signal(number, lambda signum, frame: arrived.append(signum)) for number in INTERRUPTING}
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


class LockMethod(Protocol):
    """How clocks are held. ``take`` and ``undo`` raise RefusedError; ``undo`` does no harm where nothing was taken."""

    def check(self) -> None: ...

    def take(self) -> None: ...

    def undo(self) -> None: ...

    def alive(self) -> bool: ...


class HoldResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of the clocks and what came of it. ``locked`` None: the mode holds nothing."""

    asked: str | None = None
    locked: bool | None = None
    reason: str | None = None
    roofs_mode: str = NOTHING_SET


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The GPU to hold. ``worker_pid``: of our own process on it."""

    identity: dict[str, str]
    worker_pid: int | None
    environment: dict[str, str] = {}


Say = Callable[[str], None]


class ClockHold:
    """The clocks that one process holds. NVML is not even opened before a mode of ``HELD`` is asked for."""

    def __init__(
        self,
        folder: Path,
        open_nvml: OpenNvml,
        find_ncu: Callable[[], Path | None] = lambda: None,
    ) -> None:
        self._folder, self._open_nvml, self._find_ncu = folder, open_nvml, find_ncu
        self._method: LockMethod | None = None
        self._journal: Journal | None = None
        self._key: tuple[Any, ...] | None = None
        self._refusals: dict[tuple[Any, ...], str] = {}
        self._guard = EndingGuard(self.release)
        self._owner = os.getpid()

    def ensure(self, clock: Mapping[str, Any], find_target: Callable[[], Target], say: Say) -> HoldResult:
        """Holds what the ``clock`` group asks for, and lets go of anything else. A refusal is reported once, and the
        run goes on. Raises BadInputError for a clock that this GPU does not have."""
        mode, asked = str(clock.get("mode")), asked_for(clock)
        result = HoldResult(asked=asked, roofs_mode=roofs_mode(mode, asked))
        if mode not in HELD:
            self.release(say)
            return result
        target = find_target()
        key = (mode, clock.get("mhz"), bool(clock.get("shared")), target.identity.get("uuid"))
        if key == self._key and self._method is not None and self._method.alive():
            return msgspec.structs.replace(result, locked=True)
        self.release(say)
        if key not in self._refusals:
            try:
                self._take(clock, target, asked or mode, say)
            except RefusedError as error:
                if str(error) not in self._refusals.values():
                    say(f"clocks: {asked} is not possible here: {error}. Going on with the clocks as they are")
                self._refusals[key] = str(error)
        if key in self._refusals:
            return HoldResult(asked=asked, locked=False, reason=self._refusals[key])
        self._key = key
        return msgspec.structs.replace(result, locked=True)

    def release(self, say: Say = print) -> None:
        """Undoes what was taken. Where that is refused the journal stays, and the next start tries again."""
        method, journal = self._method, self._journal
        if method is None or journal is None or os.getpid() != self._owner:
            return
        with held_back():
            self._method = self._journal = self._key = None
            try:
                method.undo()
                journal.remove()
            except Exception as error:  # whatever NVML or the system says at this moment
                say(f"clocks: they could not be given back: {error}. {by_hand(journal.uuid)}")
            finally:
                journal.let_go()
        self._guard.remove()
        atexit.unregister(self.release)

    def _take(self, clock: Mapping[str, Any], target: Target, asked: str, say: Say) -> None:
        method, nvml = self._prepare(clock, target)
        reason = why_shared(nvml, target.worker_pid)
        if reason and not clock.get("shared"):
            raise RefusedError(f"{reason}, and would get the same clocks; clock.shared=true takes them all the same")
        journal = Journal(self._folder, target.identity["uuid"])
        journal.acquire()
        try:
            self._clear(journal, method, say)
            was = {"sm_hz": _hz(nvml, 1), "memory_hz": _hz(nvml, 2)}
            ncu = str(method.ncu) if isinstance(method, NcuHold) else None
            entry = new_record(target.identity["uuid"], "ncu" if ncu else "nvml", asked, ncu=ncu, was=was)
            journal.write(entry)
        except BaseException:
            journal.let_go()
            raise
        self._method, self._journal = method, journal
        try:
            self._guard.install()
            atexit.register(self.release)
            method.take()
        except BaseException:
            self.release(say)
            raise

    def _prepare(self, clock: Mapping[str, Any], target: Target) -> tuple[LockMethod, Nvml]:
        if not target.identity.get("uuid"):
            raise RefusedError("this device's clocks are not held by this program; a CPU's are the system's to set")
        nvml = self._open_nvml(target.identity["uuid"])
        if nvml is None:
            raise RefusedError("NVML is missing, so nobody knows who else uses this GPU; install nvidia-ml-py")
        method: LockMethod
        if clock["mode"] == "locked":
            method = NvmlLock(nvml, int(clock["mhz"]))
        elif (ncu := self._find_ncu()) is None:
            raise RefusedError("Nsight Compute (ncu) is not installed, and it is what holds this clock")
        else:
            method = NcuHold(ncu, str(clock["mode"]), target.identity["uuid"], target.environment)
        method.check()
        return method, nvml

    def _clear(self, journal: Journal, method: LockMethod, say: Say) -> None:
        """What a run that died left here is undone before anything new is noted in its place."""
        if journal.exists:
            entry = journal.read()
            if entry is not None and entry.owner_lives():
                raise RefusedError(f"another roofexp (process {entry.pid}) holds this GPU's clocks; wait for its end")
            say(restore(journal, entry, self._open_nvml))


def _hz(nvml: Nvml, domain: int) -> float | None:
    with contextlib.suppress(Exception):
        mhz = nvml.ask("GetClockInfo", domain)
        return float(mhz) * 1e6 if mhz is not None else None
    return None


NOT_LOCKED = "clocks not locked"
NEAR = 0.03  # of the clock that was asked for


def with_asked(clock: Clock | None, held: HoldResult, nominal_hz: float | None) -> tuple[Clock | None, list[Flag]]:
    """The clock with ``asked``, and ``clocks_locked`` where a lock was asked for; a flag where it was not held."""
    if clock is None:
        return (Clock(compute_hz=None, asked=held.asked) if held.asked else None), []
    if held.locked is None:
        return msgspec.structs.replace(clock, asked=held.asked), []
    readings = msgspec.structs.replace(clock.readings, clocks_locked=held.locked)
    clock = msgspec.structs.replace(clock, asked=held.asked, readings=readings)
    if not held.locked:
        return clock, [Flag(NOT_LOCKED, f"{held.asked} was asked for: {held.reason}")]
    return clock, _not_held(clock, held, nominal_hz)


def _not_held(clock: Clock, held: HoldResult, nominal_hz: float | None) -> list[Flag]:
    """A lock that the driver granted and the SMs did not keep: power and temperature stand above it."""
    mhz, _, rest = (held.asked or "").partition(" MHz")
    asked_hz, kept_hz = float(mhz) * 1e6 if rest else None, clock.compute_hz
    if asked_hz and kept_hz and abs(kept_hz / asked_hz - 1) > NEAR:
        return [Flag("clocks not held", f"{held.asked}, but the SMs ran at {kept_hz / 1e6:.0f} MHz")]
    nvml_hz = clock.readings.nvml_sm_hz
    if held.asked == "base clock" and nominal_hz and nvml_hz and nvml_hz > 0.99 * nominal_hz:
        return [Flag("clocks not held", f"{held.asked}, but the SM clock stayed at its highest")]
    return []
