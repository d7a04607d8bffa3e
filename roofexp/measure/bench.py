"""What happens to a kernel inside the worker process: choose, fit, load, check, time. Knows no device."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from roofexp.config.settings import TimingSettings
from roofexp.devices.base import Device, LoadedKernel
from roofexp.errors import BadInputError, FailedError, SkippedError
from roofexp.kernel import Kernel
from roofexp.measure.clock_flags import clock_flags
from roofexp.measure.clock_summary import clock_facts
from roofexp.measure.duty_cycle import pace_of
from roofexp.measure.host_load import HostLoad, HostReading, gpu_quiet_flags, quiet_flags
from roofexp.measure.sampler import measure, possible
from roofexp.measure.soak import measure_soak
from roofexp.records.point import Check, Clock, Flag, Status, Timing
from roofexp.records.samples import Samples
from roofexp.text.console import one_line, printable, shortened

LONGEST_REASON, LONGEST_DETAIL = 600, 50_000  # characters: code that fails may say anything, at any length
IDLE_S = 5.0  # a soak starts from an idle device: it is waited for so long
IDLE_SHOWN_S = 0.5  # of idling in the readings before a soak


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel to be measured."""

    kernel: Kernel
    timing: TimingSettings
    cold: bool
    seed: int
    clock: dict[str, Any]

    @property
    def deadline_s(self) -> float:
        """When the worker is given up: pauses and a soak are no hang."""
        return self.timing.timeout_s / (pace_of(self.clock).duty or 1.0) + (self.timing.seconds or 0.0)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. ``reason_kind`` and ``reason`` say why nothing was measured."""

    status: Status
    reason_kind: str | None = None
    reason: str | None = None
    implementation: str | None = None
    check: Check | None = None
    timing: Timing | None = None
    samples: Samples | None = None
    clock: Clock | None = None
    clock_rows: list[dict[str, Any]] = []
    flags: list[Flag] = []
    measuring_s: float = 0.0
    detail: str | None = None  # the traceback of an error that nobody foresaw
    poisoned: bool = False  # the device cannot be used again: replace the worker


Progress = Callable[[float], None]
_Timed: TypeAlias = "tuple[Timing, Samples, list[Flag], Clock, list[dict[str, float | str | None]], HostReading]"


class Bench:
    """A device with what is measured once and used for every point: the timer's own floor."""

    def __init__(self, device: Device) -> None:
        import scipy.special  # noqa: F401  (loaded now, and not within the first timed part that asks for it)

        self.device = device
        self._floors: dict[bool, float] = {}

    def floor_s(self, cold: bool) -> float:
        if cold not in self._floors:
            self._floors[cold] = possible(self.device.timer_floor_s(cold), nonzero=False)
        return self._floors[cold]

    def run(self, request: Request, progress: Progress = lambda time_s: None) -> Reply:
        """Never raises for what a kernel does wrong: the reply says it."""
        start = time.perf_counter()
        try:
            reply = self._measure(request, progress)
        except SkippedError as error:
            reply = Reply(status="skipped", reason_kind="not possible here", reason=str(error))
        except BadInputError as error:
            log = getattr(error, "log", None) or (traceback.format_exc() if error.__cause__ else None)  # a compiler's
            reply = Reply(status="failed", reason_kind="bad input", reason=str(error), detail=log)
        except FailedError as error:
            reply = Reply(status="failed", reason_kind=error.kind, reason=str(error))
        except MemoryError as error:
            reply = Reply(status="failed", reason_kind="out of memory", reason=one_line(error), poisoned=True)
        except Exception as error:  # whatever else a kernel or a library raises: this point fails, the others go on
            known = self.device.explain(error)
            reply = Reply(
                status="failed",
                reason_kind=known.kind if known else "error",
                reason=str(known) if known else one_line(error),
                detail=traceback.format_exc(),
                poisoned=True,
            )
        return msgspec.structs.replace(
            reply,
            reason=reply.reason and shortened(printable(reply.reason), LONGEST_REASON),
            detail=reply.detail and shortened(printable(reply.detail), LONGEST_DETAIL),
            measuring_s=time.perf_counter() - start,
        )

    def _measure(self, request: Request, progress: Progress) -> Reply:
        device, kernel = self.device, request.kernel
        implementation = device.choose(kernel)
        needed, free = device.bytes_needed(kernel), device.bytes_free()
        if needed > free:
            raise SkippedError(f"does not fit: needs {needed / 1e9:.3g} GB, {free / 1e9:.3g} GB are free")
        loaded = device.load(kernel, implementation, request.seed)
        try:
            check = loaded.check()
            timing, samples, flags, clock, rows, host = self._time(loaded, request, progress)
            device.finish()
            loaded.check_after_timing()
        finally:
            with contextlib.suppress(Exception):  # a broken context refuses even this; its error was raised already
                loaded.release()
        period_s = float(request.clock.get("period_s") or 0.2) if pace_of(request.clock).duty else None
        clock, doubts = clock_facts(clock, rows, samples, request.cold, period_s)
        flags += [*loaded.flags, *quiet_flags(host, request.timing, device.kind)]
        flags += gpu_quiet_flags(clock.readings) if device.kind == "cuda" else []
        flags += [*clock_flags(clock, request.timing, request.clock, device.machine().nominal_hz), *doubts]
        readings = msgspec.structs.replace(
            clock.readings, host_others_share=host.others_share, host_waited_share=host.waited_share
        )
        return Reply(
            status="ok",
            implementation=implementation,
            check=check,
            timing=msgspec.structs.replace(timing, compile_s=loaded.compile_s),
            samples=samples,
            clock=msgspec.structs.replace(clock, readings=readings),
            clock_rows=rows,
            flags=flags,
        )

    def _time(self, loaded: LoadedKernel, request: Request, progress: Progress) -> _Timed:
        """With the clock watched and other programs' work counted over the timed part."""
        device, settings, pace = self.device, request.timing, pace_of(request.clock)
        watch, load = device.clock_watch(request.clock), HostLoad()
        floor_s = self.floor_s(request.cold)

        def timed_part_begins() -> None:
            watch.start()
            load.start()

        def soak_begins() -> float:
            device.rest(IDLE_S)
            timed_part_begins()
            time.sleep(IDLE_SHOWN_S)
            return IDLE_SHOWN_S

        if settings.is_soak:
            found = measure_soak(
                loaded, settings, request.cold, floor_s, progress, on_idle=soak_begins, on_lap=watch.lap, pace=pace
            )
        else:
            device.wake()
            found = measure(loaded, settings, request.cold, floor_s, progress, on_timed=timed_part_begins, pace=pace)
        host = load.stop()
        clock = watch.stop()
        return *found, clock, watch.rows(), host
