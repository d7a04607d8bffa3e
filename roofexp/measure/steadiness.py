"""How steady the samples of a time are, and the flags for those that are not. No distribution is assumed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy

from roofexp.config.settings import TimingSettings
from roofexp.records.point import Flag, Timing
from roofexp.records.samples import Samples, known_within, median, quantile
from roofexp.text.numbers import engineering, percent, signed

FEWEST_BATCHES = 3


def judge(timing: Timing, samples: Samples, settings: TimingSettings, window_s: float | None = None) -> list[Flag]:
    """Warnings about the time itself. ``window_s``: of a soak."""
    flags = []
    levels = _levels(samples, window_s)
    ordered, width = sorted(levels), half_width(samples)
    spread = (quantile(ordered, 0.95) - quantile(ordered, 0.05)) / (median(ordered) or math.inf)
    if spread > settings.noise or (width > settings.target and timing.samples < settings.max_samples):
        of = "" if levels is samples.time_s else "means of whole batches: " if samples.batches else "windows of time: "
        message = (
            f"p5 to p95 spans {percent(spread)}, {'mean' if samples.batches else 'median'} known to {percent(width)}"
        )
        flags.append(Flag("noisy", f"{of}{message} (target {percent(settings.target)})"))
    if timing.floor_s and timing.median_s < settings.timer_floors * timing.floor_s:
        floor = engineering(timing.floor_s, "s")
        message = f"{timing.median_s / timing.floor_s:.1f} times what an empty launch takes ({floor})"
        flags.append(Flag("too short", message))
    change = drift(levels if samples.batches else samples.time_s)
    if abs(change) > settings.drift:
        flags.append(Flag("drifting", f"the last third of the samples took {signed(change)} against the first"))
    return flags


def half_width(samples: Samples) -> float:
    """How well the time is known, relative: half the 95 % interval of the mean of whole batches where there are
    pauses, else of the samples' median."""
    means = batch_means(samples.time_s, samples.batches)
    return mean_half_width(means) if len(means) >= FEWEST_BATCHES else relative_half_width(samples.time_s)


def batch_means(times: Sequence[float], batches: Sequence[int]) -> list[float]:
    """Mean of each batch; ``batches``: the number of the batch that each sample is of."""
    return [sum(batch) / len(batch) for batch in _by_batch(times, batches)]


def _by_batch(times: Sequence[float], batches: Sequence[int]) -> Iterable[list[float]]:
    times_by_number: dict[int, list[float]] = {}
    for number, time_s in zip(batches, times, strict=False):
        times_by_number.setdefault(number, []).append(time_s)
    return times_by_number.values()


def mean_half_width(values: Sequence[float]) -> float:
    """Half the 95 % interval of the mean by Student's t, over the mean. For two values or more."""
    from scipy.special import stdtrit

    mean, error = float(numpy.mean(values)), float(numpy.std(values, ddof=1)) / math.sqrt(len(values))
    return float(stdtrit(len(values) - 1, 0.975)) * error / mean if mean else 0.0


def relative_half_width(times: Sequence[float]) -> float:
    """Half the 95 % interval of the median, over the median."""
    low, high = known_within(times)
    middle = median(times)
    return (high - low) / 2 / middle if middle else 0.0


def batch_slowing(samples: Samples) -> float | None:
    """How much longer launches take at the end of a batch than at its beginning, relative: the median of the batches.
    A limit that acts within the batch shows here. None where batches have too few samples."""
    batches = _by_batch(samples.time_s, samples.batches)
    changes = [batch[-1] / batch[0] - 1 for batch in batches if len(batch) >= 4 and batch[0]]
    return median(changes) if changes else None


def drift(times: Sequence[float]) -> float:
    """Median of the last third over that of the first, minus 1; zero below nine samples."""
    third = len(times) // 3
    if third < 3:
        return 0.0
    return median(times[-third:]) / median(times[:third]) - 1


def _levels(samples: Samples, window_s: float | None) -> Sequence[float]:
    """What is compared: samples, whole batches or windows."""
    numbers = [int(at_s / window_s) for at_s in samples.at_s] if window_s else samples.batches
    means = batch_means(samples.time_s, numbers)
    return means if len(means) >= FEWEST_BATCHES else samples.time_s
