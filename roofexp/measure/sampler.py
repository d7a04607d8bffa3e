"""When a measurement may stop, and what its samples say. Knows no device: it asks for samples and gets seconds."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from roofexp.config.settings import TimingSettings
from roofexp.devices.base import Streamed
from roofexp.errors import FailedError
from roofexp.measure.duty_cycle import Pace
from roofexp.measure.steadiness import FEWEST_BATCHES, batch_means, judge, mean_half_width, relative_half_width
from roofexp.records.point import Flag, Timing
from roofexp.records.samples import Samples, known_within, median, quantile

BATCH_TRIES = 5  # of a soak's batch, where other programs run on the units that are measured
LONGEST_TRIES_S = 1.0  # what disturbs a launch is over by then: a longer one is long by itself
SHORT_BATCH = 0.25  # of what was asked for: a disturbed launch had chosen the batch
FEWEST_SAMPLES = 3  # taken even when one sample is longer than the budget
LEAST_TIMED_S = 0.01  # in the launches themselves: what disturbs a GPU for a millisecond is no tenth of the time then
IMPOSSIBLE_TIME = "impossible time"
RESTORE_LAUNCHES = 1000  # inout operands are renewed after this many launches, before they run away


class Launcher(Protocol):
    """The part of a loaded kernel that timing needs."""

    @property
    def method(self) -> str: ...

    def run_hot(self, launches: int) -> float: ...

    def run_cold(self) -> float: ...

    def restore(self) -> None: ...


class Sampler:
    """Takes samples of one launcher, hot or cold, at a pace."""

    def __init__(
        self, launcher: Launcher, settings: TimingSettings, cold: bool, now: Callable[[], float], pace: Pace
    ) -> None:
        self._launcher = launcher
        self._settings = settings
        self._batch_s = max(settings.batch_s, pace.sample_s)
        self._cold = cold
        self._now = now
        self._since_restore = 0
        self.pace = pace
        self.launches = 1
        self.began_s = 0.0  # when the last sample began, by the clock that ``now`` reads
        self.last_s = 0.0  # seconds per launch of the last sample
        self.streamed = False

    def sample(self) -> float:
        """Seconds per launch of one sample."""
        if self._since_restore >= RESTORE_LAUNCHES:
            self._launcher.restore()
            self._since_restore = 0
        self.pace.step()
        self.began_s = self._now()
        self._since_restore += self.launches
        seconds = self._launcher.run_cold() if self._cold else self._launcher.run_hot(self.launches)
        self.last_s = possible(seconds, self.launches > 1) / self.launches
        return self.last_s

    def one_after_the_other(self, more: Callable[[int], bool]) -> Generator[tuple[float, float], None, None]:
        """When each sample began (s, as ``now`` reads) and its seconds per launch, while ``more`` says so, which is
        asked with the number of samples that are queued already. Hot and without pauses they are queued ahead of each
        other where the device can."""
        stream = self._stream(more)
        if stream is None:
            while more(0):
                time_s = possible(self.sample())
                yield self.began_s, time_s
            return
        self.streamed, start = True, self._now()
        with contextlib.closing(stream) as batches:
            for at_s, seconds in batches:
                self.last_s = possible(seconds) / self.launches
                yield start + at_s, self.last_s

    def _stream(self, more: Callable[[int], bool]) -> Generator[tuple[float, float], None, None] | None:
        launcher = self._launcher
        if self._cold or self.pace.duty is not None or not isinstance(launcher, Streamed):
            return None
        return launcher.stream_hot(self.launches, more, max(1, math.ceil(RESTORE_LAUNCHES / self.launches)))

    def renew(self) -> None:
        self._launcher.restore()
        self._since_restore = 0

    def fill_batch(self, tries: int = 1) -> None:
        """Finds how many launches make a hot sample long enough for the timer: by doubling, so that a host timer
        that adds a delay to every interval stays negligible. ``tries``: how often a batch must prove long enough, since
        what disturbs a launch makes it longer and never shorter."""
        if self._cold:
            return
        while self._fastest(tries) * self.launches < self._batch_s and self.launches < 1 << 20:
            self.launches *= 2

    def _fastest(self, tries: int) -> float:
        start, fastest_s = self._now(), self.sample()
        for _ in range(tries - 1):
            if fastest_s * self.launches < self._batch_s or self._now() - start > LONGEST_TRIES_S:
                break
            fastest_s = min(fastest_s, self.sample())
        return fastest_s

    def lengthen(self, time_s: float) -> None:
        """Chooses the batch again where one, of ``time_s`` a launch, was far shorter than asked for."""
        if not self._cold and 0 < time_s * self.launches < SHORT_BATCH * self._batch_s:
            self.launches = min(round(self._batch_s / time_s), 1 << 20)

    def warm_up(self) -> float:
        """Samples until three in a row agree (with pauses: the medians of three batches), or until the warm-up's time
        is over. Returns the seconds spent."""
        start = self._now()
        least_s, longest_s = self.pace.warmup_s(self._settings.warmup_s)
        self.pace.start()
        self.fill_batch()
        recent: list[float] = []
        while self._now() - start < longest_s or not recent:
            recent = [*recent[-2:], self._level()]
            steady = len(recent) == 3 and max(recent) <= min(recent) * (1 + self._settings.steady)
            if steady and self._now() - start >= least_s:
                break
        self._settle_batch(recent)
        self.pace.stop()
        return self._now() - start

    def _level(self) -> float:
        """The median of one batch; back to back, one sample."""
        number, times = self.pace.batches, [self.sample()]
        while self.pace.batches == number:
            times.append(self.sample())
        return median(sorted(times))

    def _settle_batch(self, recent: list[float]) -> None:
        """The first batches ran cold: choose the batch again from the steady rate."""
        if not self._cold and recent and median(sorted(recent)) > 0:
            wanted = self._batch_s / median(sorted(recent))
            self.launches = max(1, min(round(wanted), 1 << 20)) if wanted > 1 else 1

    def collect(self, progress: Callable[[float], None]) -> Samples:
        """Samples until the interval of the median is within the target, or until the budget ends."""
        start = self._now()
        times: list[float] = []
        stamps: list[float] = []
        numbers: list[int] = []
        self.pace.start()
        while True:
            times.append(possible(self.sample()))
            stamps.append(self.began_s - start)
            numbers.append(self.pace.batches)
            if _time_to_look(len(times)):
                progress(times[-1])
            if self._is_enough(times, numbers, self._now() - start):
                return self.taken(times, stamps, numbers)

    def _is_enough(self, times: list[float], numbers: list[int], spent_s: float) -> bool:
        """With pauses whole batches are taken, and as many as it needs to know their mean."""
        settings, pace = self._settings, self.pace
        if not pace.batch_over or spent_s < pace.timed_s:
            return False
        budget_over = len(times) >= FEWEST_SAMPLES and spent_s >= max(settings.budget_s, pace.longest_timed_s)
        if budget_over or len(times) >= settings.max_samples:
            return True
        if pace.duty is not None:
            means = batch_means(times, numbers)
            return len(means) >= FEWEST_BATCHES and mean_half_width(means) <= settings.target
        timed_s = self.launches * sum(times)
        enough = len(times) >= settings.min_samples and timed_s >= LEAST_TIMED_S
        return enough and _time_to_look(len(times)) and relative_half_width(times) <= settings.target

    def taken(self, times: list[float], stamps: list[float], numbers: Sequence[int] = ()) -> Samples:
        """The samples of a timed part that ends now, with the pause that belongs to it."""
        self.pace.stop()
        batches = list(numbers) if self.pace.duty is not None else []
        return Samples(times, stamps, self.launches, self.pace.passed_s, self.pace.busy_s, batches=batches)


def measure(
    launcher: Launcher,
    settings: TimingSettings,
    cold: bool,
    floor_s: float | None,
    progress: Callable[[float], None] = lambda time_s: None,
    now: Callable[[], float] = time.perf_counter,
    on_timed: Callable[[], None] = lambda: None,
    pace: Pace | None = None,
) -> tuple[Timing, Samples, list[Flag]]:
    """Warms up, calls ``on_timed``, collects samples. ``floor_s`` is what an empty launch measures as."""
    sampler = Sampler(launcher, settings, cold, now, pace or Pace(now=now))
    warmup_s = sampler.warm_up()
    on_timed()
    samples = sampler.collect(progress)
    timing = summarised(samples, warmup_s, floor_s, launcher.method)
    return timing, samples, judge(timing, samples, settings)


def summarised(samples: Samples, warmup_s: float, floor_s: float | None, method: str) -> Timing:
    """Order statistics of the samples."""
    ordered = sorted(samples.time_s)
    low, high = known_within(samples.time_s)
    return Timing(
        median_s=median(ordered),
        p5_s=quantile(ordered, 0.05),
        p95_s=quantile(ordered, 0.95),
        low_s=low,
        high_s=high,
        samples=len(ordered),
        launches_per_sample=samples.launches_per_sample,
        warmup_s=warmup_s,
        floor_s=floor_s,
        method=method,
        mean_s=samples.timed_s / samples.launches,
    )


def possible(seconds: float, nonzero: bool = True) -> float:
    """The time of a sample. Raises FailedError for one that nothing takes: it would make of the rate what it is not.
    A single launch that is looked at before the timing may be shorter than the timer's step."""
    if math.isfinite(seconds) and (seconds > 0 or (seconds == 0 and not nonzero)):
        return seconds
    raise FailedError(IMPOSSIBLE_TIME, f"the timer gave {seconds:.3g} s for a sample; a time is more than 0 s")


def _time_to_look(count: int) -> bool:
    """The stopping rule sorts all samples: it is asked at most every tenth more of them."""
    return count % max(1, count // 10) == 0
