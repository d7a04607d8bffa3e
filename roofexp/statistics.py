"""Order statistics of time samples: nothing is assumed about their distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence


def median(ordered: Sequence[float]) -> float:
    """Of samples in ascending order."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def quantile(ordered: Sequence[float], share: float) -> float:
    """By linear interpolation between samples in ascending order."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


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
