"""The clocks of one GPU, held while points are timed: taken when asked for, journalled first, undone in any case."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from roofexp.clocks.journal import Journal, new_entry
from roofexp.clocks.left_over import OpenNvml, by_hand, restore
from roofexp.clocks.modes import HELD, NOTHING_SET, asked_for, roofs_mode
from roofexp.clocks.ncu_hold import NcuHold
from roofexp.clocks.nvml_lock import NvmlLock, why_shared
from roofexp.clocks.refused import RefusedError
from roofexp.clocks.signals import EndingGuard, held_back
from roofexp.devices.nvml import Nvml


class Way(Protocol):
    """How clocks are held. ``take`` and ``undo`` raise RefusedError; ``undo`` does no harm where nothing was taken."""

    def check(self) -> None: ...

    def take(self) -> None: ...

    def undo(self) -> None: ...

    def alive(self) -> bool: ...


class Held(msgspec.Struct, frozen=True, kw_only=True):
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
    """That of one process. Nothing is touched, NVML not even opened, before a mode of ``modes.HELD`` is asked for."""

    def __init__(
        self,
        folder: Path,
        open_nvml: OpenNvml,
        find_ncu: Callable[[], Path | None] = lambda: None,
    ) -> None:
        self._folder, self._open_nvml, self._find_ncu = folder, open_nvml, find_ncu
        self._way: Way | None = None
        self._journal: Journal | None = None
        self._key: tuple[Any, ...] | None = None
        self._refusals: dict[tuple[Any, ...], str] = {}
        self._guard = EndingGuard(self.release)
        self._owner = os.getpid()

    def ensure(self, clock: Mapping[str, Any], find_target: Callable[[], Target], say: Say) -> Held:
        """Holds what the ``clock`` group asks for, and lets go of anything else. A refusal is said once, and the run
        goes on. Raises BadInputError for a clock that this GPU does not have.
        """
        mode, asked = str(clock.get("mode")), asked_for(clock)
        if mode not in HELD:
            self.release(say)
            return Held(asked=asked, roofs_mode=roofs_mode(mode, asked))
        target = find_target()
        key = (mode, clock.get("mhz"), bool(clock.get("shared")), target.identity.get("uuid"))
        if key == self._key and self._way is not None and self._way.alive():
            return Held(asked=asked, locked=True, roofs_mode=roofs_mode(mode, asked))
        self.release(say)
        if key not in self._refusals:
            try:
                self._take(clock, target, asked or mode, say)
            except RefusedError as error:
                if str(error) not in self._refusals.values():
                    say(f"clocks: {asked} is not possible here: {error}. Going on with the clocks as they are")
                self._refusals[key] = str(error)
        if key in self._refusals:
            return Held(asked=asked, locked=False, reason=self._refusals[key])
        self._key = key
        return Held(asked=asked, locked=True, roofs_mode=roofs_mode(mode, asked))

    def release(self, say: Say = print) -> None:
        """Undoes what was taken. Where that is refused the journal stays, and the next start tries again."""
        way, journal = self._way, self._journal
        if way is None or journal is None or os.getpid() != self._owner:
            return
        with held_back():
            self._way = self._journal = self._key = None
            try:
                way.undo()
                journal.remove()
            except Exception as error:  # whatever NVML or the system says at this moment
                say(f"clocks: they could not be given back: {error}. {by_hand(journal.uuid)}")
            finally:
                journal.let_go()
        self._guard.remove()
        atexit.unregister(self.release)

    def _take(self, clock: Mapping[str, Any], target: Target, asked: str, say: Say) -> None:
        way, nvml = self._prepare(clock, target)
        reason = why_shared(nvml, target.worker_pid)
        if reason and not clock.get("shared"):
            raise RefusedError(f"{reason}, and would get the same clocks; clock.shared=true takes them all the same")
        journal = Journal(self._folder, target.identity["uuid"])
        journal.acquire()
        try:
            self._clear(journal, way, say)
            was = {"sm_hz": _hz(nvml, 1), "memory_hz": _hz(nvml, 2)}
            ncu = str(way.ncu) if isinstance(way, NcuHold) else None
            entry = new_entry(target.identity["uuid"], "ncu" if ncu else "nvml", asked, ncu=ncu, was=was)
            journal.write(entry)
        except BaseException:
            journal.let_go()
            raise
        self._way, self._journal = way, journal
        try:
            self._guard.install()
            atexit.register(self.release)
            way.take()
        except BaseException:
            self.release(say)
            raise

    def _prepare(self, clock: Mapping[str, Any], target: Target) -> tuple[Way, Nvml]:
        if not target.identity.get("uuid"):
            raise RefusedError("this device's clocks are not held by this program; a CPU's are the system's to set")
        nvml = self._open_nvml(target.identity["uuid"])
        if nvml is None:
            raise RefusedError("NVML is missing, so nobody knows who else uses this GPU; install nvidia-ml-py")
        way: Way
        if clock["mode"] == "locked":
            way = NvmlLock(nvml, int(clock["mhz"]))
        elif (ncu := self._find_ncu()) is None:
            raise RefusedError("Nsight Compute (ncu) is not installed, and it is what holds this clock")
        else:
            way = NcuHold(ncu, str(clock["mode"]), target.identity["uuid"], target.environment)
        way.check()
        return way, nvml

    def _clear(self, journal: Journal, way: Way, say: Say) -> None:
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
