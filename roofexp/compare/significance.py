"""Whether two medians of time differ: honest for samples that are few, skewed, autocorrelated or drifting.

Everything is computed, nothing drawn at random: the same files always give the same verdict.

- The standard error of a median is Maritz and Jarrett's (Biometrika 65(1), 1978): what a bootstrap of the median
  converges to. It assumes no distribution.
- Samples of one run follow one another. The error is widened by the autocorrelation of "below the median", which
  decides the variance of a median; its sum ends where Geyer's initial positive sequence does (Statistical Science 7(4),
  1992). A drift shows in it as a long correlation.
- Two runs of the same thing differ by more than the noise within a run. What is tested is therefore not "equal" but
  "within the floor of each other", by Student's t with Welch's degrees of freedom.
- Over the points of a sweep Holm's procedure (Scandinavian Journal of Statistics 6(2), 1979) keeps the chance of even
  one false change below the level, whatever the dependence between the points.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

import msgspec

from roofexp.records.samples import autocorrelation_time, median, quantile


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A median time and how well it is known. ``error`` and ``spread`` are relative to the median.

    ``independent`` is the number of samples that would say as much if they were independent; ``spread`` how far
    they scatter (None: unknown): twice the distance from the lower quartile to the median, because what disturbs a
    launch only ever delays it, and moves the upper quartile long before the median.
    ``quartiles`` is the distance between both.
    """

    median_s: float
    error: float
    independent: float
    samples: int
    spread: float | None = None
    quartiles: float | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """``ln(b / a)`` of two times with its standard error, and the chance of seeing it where nothing changed."""

    log_ratio: float
    error: float
    freedom: float
    floor: float  # two runs of the same thing may differ by so much, as ln
    p_value: float

    def interval(self, level: float) -> tuple[float, float]:
        """The confidence interval of ``ln(b / a)``, e.g. for level 0.05 the one of 95 %."""
        from scipy.special import stdtrit

        reach = float(stdtrit(self.freedom, 1 - level / 2)) * self.error
        return self.log_ratio - reach, self.log_ratio + reach


def estimate(time_s: Sequence[float]) -> Estimate:
    """Of samples in the order in which they were taken; at least one."""
    ordered = sorted(time_s)
    middle = median(ordered)
    inflation = autocorrelation_time([float(value <= middle) for value in time_s])
    error = math.hypot(_median_error(ordered) * math.sqrt(inflation), _resolution(ordered) / math.sqrt(12))
    spread = 2 * (middle - quantile(ordered, 0.25))
    return Estimate(
        median_s=middle,
        error=error / middle,
        independent=max(len(ordered) / inflation, 1.0),
        samples=len(ordered),
        spread=spread / middle,
        quartiles=(quantile(ordered, 0.75) - quantile(ordered, 0.25)) / middle,
    )


def estimate_from_interval(median_s: float, low_s: float, high_s: float, samples: int) -> Estimate:
    """Where raw samples are not kept: from the 95 % interval of the median."""
    return Estimate(
        median_s=median_s, error=(high_s - low_s) / (2 * 1.96 * median_s), independent=samples, samples=samples
    )


def change(a: Estimate, b: Estimate, floor: float) -> Change:
    """``floor`` is relative: 0.01 says that two runs of the same thing may differ by 1 %."""
    log_ratio, log_floor = math.log(b.median_s / a.median_s), math.log1p(floor)
    error = math.hypot(a.error, b.error)
    freedom = _welch(a, b)
    beyond, other = abs(log_ratio) - log_floor, abs(log_ratio) + log_floor
    return Change(
        log_ratio=log_ratio,
        error=error,
        freedom=freedom,
        floor=log_floor,
        p_value=min(1.0, _tail(beyond, error, freedom) + _tail(other, error, freedom)),
    )


def holm(p_values: Sequence[float], level: float) -> list[bool]:
    """Which of the hypotheses are rejected, so that the chance of even one false rejection is below ``level``."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    rejected = [False] * len(p_values)
    for rank, i in enumerate(order):
        if p_values[i] > level / (len(p_values) - rank):
            break
        rejected[i] = True
    return rejected


def _median_error(ordered: Sequence[float]) -> float:
    """Maritz and Jarrett's standard error of the median of samples in ascending order, in their unit."""
    import numpy
    from scipy.special import betainc

    count = len(ordered)
    if count < 2:
        return math.inf
    half = (count + 1) / 2
    weights = numpy.diff(betainc(half, half, numpy.arange(count + 1) / count))
    values = numpy.asarray(ordered, dtype=float)
    return math.sqrt(max(float(weights @ (values - weights @ values) ** 2), 0.0))


def _resolution(ordered: Sequence[float]) -> float:
    """The step of the timer where it shows: the least distance between samples of which most have an equal."""
    distinct = sorted(set(ordered))
    if len(distinct) < 2 or len(distinct) > len(ordered) / 2:
        return 0.0
    return min(later - earlier for earlier, later in itertools.pairwise(distinct))


def _welch(a: Estimate, b: Estimate) -> float:
    """Welch's degrees of freedom; those of the smaller sample where both errors are zero."""
    parts = [(side.error**2, max(side.independent - 1, 1.0)) for side in (a, b)]
    total = sum(part for part, _ in parts)
    if total == 0 or not math.isfinite(total):
        return min(freedom for _, freedom in parts)
    return total**2 / sum(part**2 / freedom for part, freedom in parts)


def _tail(distance: float, error: float, freedom: float) -> float:
    """The chance that an error of this size reaches so far."""
    if not math.isfinite(error):
        return 1.0
    if error == 0:
        return 0.5 if distance == 0 else float(distance < 0)
    from scipy.special import stdtr

    return float(stdtr(freedom, -distance / error))


def combined(estimates: Sequence[Estimate]) -> Estimate:
    """Of repeated runs of one thing: their scatter counts where it is more than the noise within them explains."""
    if len(estimates) == 1:
        return estimates[0]
    logs = [math.log(run.median_s) for run in estimates]
    count = len(logs)
    between = statistics.stdev(logs) / math.sqrt(count)
    within = math.hypot(*(run.error for run in estimates)) / count
    return Estimate(
        median_s=math.exp(median(logs)),
        error=max(between, within),
        independent=count if between >= within else sum(run.independent for run in estimates),
        samples=sum(run.samples for run in estimates),
        spread=max((run.spread for run in estimates if run.spread is not None), default=None),
        quartiles=max((run.quartiles for run in estimates if run.quartiles is not None), default=None),
    )


def repeatability(runs: Sequence[Sequence[Estimate]]) -> float | None:
    """By how much two runs of the same thing differed: the 95th percentile over all pairs of runs of each thing,
    relative; None where nothing was run twice."""
    distances = sorted(
        abs(math.log(second.median_s / first.median_s))
        for estimates in runs
        for first, second in itertools.combinations(estimates, 2)
    )
    return math.expm1(quantile(distances, 0.95)) if distances else None
