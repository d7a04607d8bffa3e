"""When a measurement may stop, and what its samples say. Knows no device: it asks for samples and gets seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from roofexp.point import Flag, Timing
from roofexp.statistics import median, median_interval, quantile

FEWEST_SAMPLES = 3  # taken even when one sample is longer than the budget
RESTORE_LAUNCHES = 1000  # inout operands are renewed after this many launches, before they run away


class TimingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The ``timing`` group of the configuration; see conf/timing/default.yaml for what each value does."""

    name: str
    target: float
    budget_s: float
    warmup_s: float
    steady: float
    batch_s: float
    min_samples: int
    max_samples: int
    drift: float
    noise: float
    timer_floors: float
    busy: float
    timeout_s: float
    seconds: float | None = None


class Launcher(Protocol):
    """The part of a loaded kernel that timing needs."""

    @property
    def method(self) -> str: ...

    def run_hot(self, launches: int) -> float: ...

    def run_cold(self) -> float: ...

    def restore(self) -> None: ...


class Samples(msgspec.Struct, frozen=True):
    """Raw samples: seconds per launch, and when each was taken (seconds since the first)."""

    time_s: list[float]
    at_s: list[float]
    launches_per_sample: int


class Sampler:
    """Takes samples of one launcher, hot or cold."""

    def __init__(self, launcher: Launcher, settings: TimingSettings, cold: bool, now: Callable[[], float]) -> None:
        self._launcher = launcher
        self._settings = settings
        self._cold = cold
        self._now = now
        self._since_restore = 0
        self.launches = 1

    def sample(self) -> float:
        """Seconds per launch of one sample."""
        if self._since_restore >= RESTORE_LAUNCHES:
            self._launcher.restore()
            self._since_restore = 0
        self._since_restore += self.launches
        if self._cold:
            return self._launcher.run_cold()
        return self._launcher.run_hot(self.launches) / self.launches

    def fill_batch(self) -> None:
        """Finds how many launches make a hot sample long enough for the timer: by doubling, so that a host timer
        that adds a delay to every interval stays negligible."""
        if self._cold:
            return
        while self.sample() * self.launches < self._settings.batch_s and self.launches < 1 << 20:
            self.launches *= 2

    def warm_up(self) -> float:
        """Samples until three in a row agree, or until the warm-up's time is over. Returns the seconds spent."""
        start = self._now()
        self.fill_batch()
        recent: list[float] = []
        while self._now() - start < self._settings.warmup_s or not recent:
            recent = [*recent[-2:], self.sample()]
            if len(recent) == 3 and max(recent) <= min(recent) * (1 + self._settings.steady):
                break
        self._settle_batch(recent)
        return self._now() - start

    def _settle_batch(self, recent: list[float]) -> None:
        """The first batches ran cold: choose the batch again from the steady rate."""
        if not self._cold and recent and median(sorted(recent)) > 0:
            wanted = self._settings.batch_s / median(sorted(recent))
            self.launches = max(1, min(round(wanted), 1 << 20)) if wanted > 1 else 1

    def collect(self, progress: Callable[[float], None]) -> Samples:
        """Samples until the interval of the median is within the target, or until the budget ends."""
        settings, start = self._settings, self._now()
        times: list[float] = []
        stamps: list[float] = []
        while len(times) < settings.max_samples:
            stamps.append(self._now() - start)
            times.append(self.sample())
            spent = self._now() - start
            if len(times) >= FEWEST_SAMPLES and spent >= settings.budget_s:
                break
            if _time_to_look(len(times)):
                progress(times[-1])
                if len(times) >= settings.min_samples and relative_half_width(times) <= settings.target:
                    break
        return Samples(times, stamps, self.launches)


def measure(
    launcher: Launcher,
    settings: TimingSettings,
    cold: bool,
    floor_s: float | None,
    progress: Callable[[float], None] = lambda time_s: None,
    now: Callable[[], float] = time.perf_counter,
    on_timed: Callable[[], None] = lambda: None,
) -> tuple[Timing, Samples, list[Flag]]:
    """Warms up, calls ``on_timed``, collects samples. ``floor_s`` is what an empty launch measures as."""
    sampler = Sampler(launcher, settings, cold, now)
    warmup_s = sampler.warm_up()
    on_timed()
    samples = sampler.collect(progress)
    ordered = sorted(samples.time_s)
    low, high = median_interval(ordered)
    timing = Timing(
        median_s=median(ordered),
        p5_s=quantile(ordered, 0.05),
        p95_s=quantile(ordered, 0.95),
        low_s=low,
        high_s=high,
        samples=len(ordered),
        launches_per_sample=samples.launches_per_sample,
        warmup_s=warmup_s,
        floor_s=floor_s,
        method=launcher.method,
    )
    return timing, samples, judge(timing, samples, settings)


def judge(timing: Timing, samples: Samples, settings: TimingSettings) -> list[Flag]:
    """Warnings about the time itself."""
    flags = []
    spread = (timing.p95_s - timing.p5_s) / timing.median_s if timing.median_s else 0.0
    width = relative_half_width(samples.time_s)
    if spread > settings.noise or (width > settings.target and timing.samples < settings.max_samples):
        flags.append(
            Flag("noisy", f"p5 to p95 spans {spread:.1%}, median known to {width:.1%} (target {settings.target:.1%})")
        )
    if timing.floor_s and timing.median_s < settings.timer_floors * timing.floor_s:
        floors = timing.median_s / timing.floor_s
        flags.append(Flag("too short", f"{floors:.1f} times what an empty launch takes ({timing.floor_s:.3g} s)"))
    change = drift(samples.time_s)
    if abs(change) > settings.drift:
        flags.append(Flag("drifting", f"the last third of the samples took {change:+.1%} against the first"))
    return flags


def relative_half_width(times: list[float]) -> float:
    """Half the 95 % interval of the median, over the median."""
    ordered = sorted(times)
    low, high = median_interval(ordered)
    return (high - low) / 2 / median(ordered) if median(ordered) else 0.0


def drift(times: list[float]) -> float:
    """Median of the last third over that of the first, minus 1; zero below nine samples."""
    third = len(times) // 3
    if third < 3:
        return 0.0
    return median(sorted(times[-third:])) / median(sorted(times[:third])) - 1


def _time_to_look(count: int) -> bool:
    """The stopping rule sorts all samples: it is asked at most every tenth more of them."""
    return count % max(1, count // 10) == 0
