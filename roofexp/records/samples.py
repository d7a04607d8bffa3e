"""What is sampled of a point and when sampling may stop, with order statistics of samples: nothing is assumed about
their distribution. Times in s."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy

LAP_S = 0.25  # between two readings of the clock of a soak


class Samples(msgspec.Struct, frozen=True):
    """Raw samples: seconds per launch, and when each was taken (seconds since the first)."""

    time_s: list[float]
    at_s: list[float]
    launches_per_sample: int
    passed_s: float = 0.0  # from the first sample to the end of the last one's pause
    busy_s: float = 0.0  # of it without a pause
    batches: list[int] = []  # with pauses: the number of the batch that each sample is of
    settled_from_s: float | None = None  # of a soak: the record's time is that of the samples from here on
    launches_each: list[int] = []  # of each sample, where they differ

    @property
    def counts(self) -> list[int]:
        """Launches of each sample."""
        return self.launches_each or [self.launches_per_sample] * len(self.time_s)

    @property
    def each(self) -> list[tuple[float, float, int]]:
        """When each sample began (s), its seconds per launch and its launches."""
        return list(zip(self.at_s, self.time_s, self.counts, strict=True))

    @property
    def launches(self) -> int:
        return sum(self.counts)

    @property
    def timed_s(self) -> float:
        """Spent in the launches themselves."""
        return sum(time_s * launches for time_s, launches in zip(self.time_s, self.counts, strict=True))


def median(values: Sequence[float]) -> float:
    """The middle one, or the mean of the two in the middle."""
    return float(numpy.median(values))


def quantile(values: Sequence[float], share: float) -> float:
    """By linear interpolation between the samples on both sides."""
    return float(numpy.quantile(values, share))


def median_interval(ordered: Sequence[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the median, from ranks (normal approximation of the binomial; Le Boudec,
    Performance Evaluation of Computer and Communication Systems, annex A). Below 6 samples no interval has 95 %:
    the whole range is returned."""
    count = len(ordered)
    if count < 6:
        return ordered[0], ordered[-1]
    spread = 0.98 * math.sqrt(count)
    low = max(0, math.floor(count / 2 - spread) - 1)
    high = min(count - 1, math.ceil(count / 2 + 1 + spread) - 1)
    return ordered[low], ordered[high]


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
