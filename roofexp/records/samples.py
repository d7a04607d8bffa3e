"""What is sampled of a point and when sampling may stop, with order statistics of samples: nothing is assumed about
their distribution. Times in s."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy

FEWEST_IN_A_THIRD = 3
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


def autocorrelation_time(series: Sequence[float]) -> float:
    """How many successive values say as much as one independent value: at least 1, at most all of them.

    The sum of the autocorrelations while their pairs are positive (Geyer, Statistical Science 7(4), 1992).
    """
    count = len(series)
    centred = numpy.asarray(series, dtype=float) - numpy.mean(series)
    if count < 4 or not centred.any():
        return 1.0
    size = 1 << (2 * count - 1).bit_length()
    transform = numpy.fft.rfft(centred, size)
    covariance = numpy.fft.irfft(transform * numpy.conj(transform), size)[: count // 2 + 1]
    correlation = covariance / covariance[0]
    total = 0.0
    for lag in range(0, len(correlation) - 1, 2):
        pair = float(correlation[lag] + correlation[lag + 1])
        if pair <= 0:
            break
        total += pair
    return min(max(2 * total - 1, 1.0), float(count))


def median_interval(ordered: Sequence[float], inflation: float = 1.0) -> tuple[float, float]:
    """The 95 % confidence interval of the median, from ranks (normal approximation of the binomial; Le Boudec,
    Performance Evaluation of Computer and Communication Systems, annex A). Below 6 independent samples no
    interval has 95 %: the whole range is returned. ``inflation``: of how many successive samples one is independent."""
    count = len(ordered)
    if count / inflation < 6:
        return ordered[0], ordered[-1]
    spread = 0.98 * math.sqrt(count * inflation)
    low = max(0, math.floor(count / 2 - spread) - 1)
    high = min(count - 1, math.ceil(count / 2 + 1 + spread) - 1)
    return ordered[low], ordered[high]


def known_within(time_s: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median of samples in the order in which they were taken: neighbours that move together
    say less than independent ones, and a time that drifts is not known better than it drifts."""
    ordered, middle = sorted(time_s), median(time_s)
    low, high = median_interval(ordered, autocorrelation_time([float(value <= middle) for value in time_s]))
    third = len(time_s) // 3
    if third >= FEWEST_IN_A_THIRD:
        ends = median(time_s[:third]), median(time_s[-third:])
        if abs(ends[1] / ends[0] - 1) > (high - low) / middle:
            low, high = min(low, *ends), max(high, *ends)
    return low, high


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
