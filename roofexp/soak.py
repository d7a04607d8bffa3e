"""A kernel back to back from an idle start, for so many seconds: its samples, and where its rate has settled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from roofexp.point import Flag
from roofexp.statistics import median

if TYPE_CHECKING:
    from roofexp.timing import Sampler, Samples

BATCH_S = 0.02  # a hot sample: short beside a lap, long beside what the host does between two of them
AHEAD_S = 0.12  # queued ahead: longer than the readings at a lap hold the host
FEWEST_AHEAD = 2  # one runs while the next waits
LAP_S = 0.25  # between two readings of the clock
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
        wanted = queued < FEWEST_AHEAD or ahead_s < AHEAD_S
        return first or (wanted and now() - start + ahead_s < seconds)

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


def window_s(samples: Iterable[tuple[float, float, int]]) -> float:
    """A quarter second, or as long as two samples where these take longer."""
    return max(LAP_S, 2 * median(sorted(time_s * launches for _, time_s, launches in samples)))


def windows(samples: Iterable[tuple[float, float, int]], width_s: float) -> dict[int, tuple[float, int]]:
    """Seconds and launches in each window of time in which samples began, by the window's number from 0 s on: their
    quotient is the time of a launch that the record and the figure give. ``samples``: as Samples.each."""
    found: dict[int, tuple[float, int]] = {}
    for at_s, time_s, launches in samples:
        seconds, number = found.get(int(at_s / width_s), (0.0, 0))
        found[int(at_s / width_s)] = seconds + time_s * launches, number + launches
    return found


def settled(samples: Samples, within: float) -> tuple[Samples, float, list[Flag]]:
    """The settled part in quarter seconds (as samples: seconds per launch of each), when it began (s), and a flag where
    the rate never settled.

    What the rate settles to is the median of the last third. It has settled with the first window of time from which
    on nine of ten windows lie within ``within`` (relative) of that.
    """
    taken = samples.each
    first_s, last_s = samples.at_s[0], samples.at_s[-1]
    width_s = max(LAP_S, (last_s - first_s) / WINDOWS)
    found = windows([(at_s - first_s, time_s, launches) for at_s, time_s, launches in taken], width_s)
    levels = [seconds / launches for seconds, launches in found.values()]
    third = len(levels) * 2 // 3
    end = median(sorted(levels[third:]))
    good = [abs(level / end - 1) <= within for level in levels]
    begin = next((i for i in range(third) if good[i] and sum(good[i:]) >= SETTLED_SHARE * len(good[i:])), None)
    flags = []
    if begin is None and len(levels) > 1:
        flags = [Flag("not settled", f"the rate still moved in the last third, by more than {within:.0%}")]
    from_s = first_s + list(found)[third if begin is None else begin] * width_s
    return _in_windows(samples, [each for each in taken if each[0] >= from_s], window_s(taken)), from_s, flags


def _in_windows(samples: Samples, taken: list[tuple[float, float, int]], width_s: float) -> Samples:
    found = windows(taken, width_s)
    counts = [launches for _, launches in found.values()]
    return msgspec.structs.replace(
        samples,
        time_s=[seconds / launches for seconds, launches in found.values()],
        at_s=[number * width_s for number in found],
        launches_per_sample=round(sum(counts) / len(counts)),
        launches_each=counts,
        batches=[],
    )
