"""A kernel back to back from an idle start, for so many seconds: its samples, and where its rate has settled."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import msgspec

from roofexp.config.settings import TimingSettings
from roofexp.devices.base import Streamed
from roofexp.measure.duty_cycle import Pace
from roofexp.measure.sampler import BATCH_TRIES, Launcher, Sampler, summarised
from roofexp.measure.steadiness import judge
from roofexp.records.point import Flag, Timing
from roofexp.records.samples import LAP_S, Samples, median, window_s, windows
from roofexp.text.numbers import percent

BATCH_S = 0.02  # a hot sample: short beside a lap, long beside what the host does between two of them
AHEAD_S = 0.12  # queued ahead: longer than the readings at a lap hold the host
FEWEST_AHEAD = 2  # one runs while the next waits
WINDOWS = 60  # at most so many are compared when the settled part is looked for
SETTLED_SHARE = 0.9  # of the windows: single disturbances do not unsettle


def soak(
    sampler: Sampler,
    seconds: float,
    now: Callable[[], float],
    progress: Callable[[float], None],
    on_lap: Callable[[], None],
    idle_s: float = 0.0,
) -> Samples:
    """Every sample of ``seconds``; ``on_lap`` is called every quarter of a second. Times count from ``idle_s`` before
    the first sample, when the readings beside the timing began."""
    times: list[float] = []
    stamps: list[float] = []
    counts: list[int] = []
    sampler.pace.start()
    start = lap = now()

    begun = False

    def more(queued: int) -> bool:
        nonlocal begun
        first, begun = not begun, True
        ahead_s = queued * sampler.launches * sampler.last_s
        has_room = queued < FEWEST_AHEAD or ahead_s < AHEAD_S
        return first or (has_room and now() - start + ahead_s < seconds)

    with contextlib.closing(sampler.one_after_the_other(more)) as taken:
        for began_s, time_s in taken:
            times.append(time_s)
            stamps.append(began_s - start + idle_s)
            counts.append(sampler.launches)
            if not sampler.streamed:
                sampler.lengthen(time_s)
            if now() - lap >= LAP_S:
                lap = max(lap + LAP_S, now() - LAP_S)  # on the quarters, also when one came late
                on_lap()
                progress(times[-1])
    samples = sampler.taken(times, stamps)
    on_lap()
    if len(set(counts)) > 1:
        return msgspec.structs.replace(samples, launches_each=counts)
    return samples


def settled(samples: Samples, within: float) -> tuple[Samples, float, list[Flag]]:
    """The settled part in quarter seconds (as samples: seconds per launch of each), when it began (s), and a flag where
    the rate never settled.

    What the rate settles to is the median of the last third. It has settled with the first window of time from which
    on nine of ten windows lie within ``within`` (relative) of that.
    """
    taken = samples.each
    first_s, last_s = samples.at_s[0], samples.at_s[-1]
    width_s = max(LAP_S, (last_s - first_s) / WINDOWS)
    compared = windows([(at_s - first_s, time_s, launches) for at_s, time_s, launches in taken], width_s)
    levels = [seconds / launches for seconds, launches in compared.values()]
    third = len(levels) * 2 // 3
    end = median(levels[third:])
    near = [abs(level / end - 1) <= within for level in levels]
    begin = next((i for i in range(third) if near[i] and sum(near[i:]) >= SETTLED_SHARE * len(near[i:])), None)
    flags = []
    if begin is None and len(levels) > 1:
        flags = [Flag("not settled", f"the rate still moved in the last third, by more than {percent(within)}")]
    from_s = first_s + list(compared)[third if begin is None else begin] * width_s
    return _in_windows(samples, from_s, window_s(taken)), from_s, flags


def _in_windows(samples: Samples, from_s: float, width_s: float) -> Samples:
    """The samples from ``from_s`` on, one for each window of ``width_s``."""
    parts = windows((sample for sample in samples.each if sample[0] >= from_s), width_s)
    counts = [launches for _, launches in parts.values()]
    return msgspec.structs.replace(
        samples,
        time_s=[seconds / launches for seconds, launches in parts.values()],
        at_s=[number * width_s for number in parts],
        launches_per_sample=round(sum(counts) / len(counts)),
        launches_each=counts,
        batches=[],
    )


def measure_soak(
    launcher: Launcher,
    settings: TimingSettings,
    cold: bool,
    floor_s: float | None,
    progress: Callable[[float], None] = lambda time_s: None,
    now: Callable[[], float] = time.perf_counter,
    on_idle: Callable[[], float] = lambda: 0.0,
    on_lap: Callable[[], None] = lambda: None,
    pace: Pace | None = None,
) -> tuple[Timing, Samples, list[Flag]]:
    """All samples of ``settings.seconds`` from an idle start; the time is the median over quarter seconds of the part
    in which the rate had settled, each quarter's time over its launches. ``on_idle`` waits until the device is idle,
    begins the readings, and returns for how long they are ahead.
    """
    seconds = settings.seconds or 0.0
    settings = msgspec.structs.replace(settings, batch_s=max(settings.batch_s, BATCH_S))
    sampler = Sampler(launcher, settings, cold, now, pace or Pace(now=now))
    sampler.fill_batch(1 if isinstance(launcher, Streamed) else BATCH_TRIES)
    sampler.renew()
    samples = soak(sampler, seconds, now, progress, on_lap, on_idle())
    part, from_s, flags = settled(samples, settings.drift)
    method = f"{launcher.method}{', batches queued ahead' if sampler.streamed else ''}"
    when = "in the last third" if flags else f"from {from_s:.1f} s on, in which the rate had settled"
    method += f"; windows of {window_s(samples.each):.3g} s {when}: time over launches of each"
    timing = summarised(part, from_s, floor_s, method)
    flags += [flag for flag in judge(timing, part, settings, LAP_S) if not (flags and flag.name == "drifting")]
    return timing, msgspec.structs.replace(samples, settled_from_s=from_s), flags
