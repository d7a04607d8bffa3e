"""The size at which a kernel leaves the launch behind: a fit of its times, with the uncertainty of the size.

Pure: numbers in, numbers out. The model is t = floor + slowdown x bound, where ``bound`` is the time that the roofs
allow for each size. The crossover is the size at which both parts are equal, so that half of the time is the floor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

LEAST_POINTS = 5  # two parameters, and something left to judge the fit by
STEPS = 400  # of the grid over the crossover
DRAWS = 400
NEAR = 5.0  # the second, fine grid reaches this far from the best of the first
NORMAL_95 = 1.959964
SEED = 20090401  # the interval is the same whenever it is computed


class Crossover(NamedTuple):
    """``size`` with the ends of its 95 % interval; ``floor_s`` in s; ``slowdown`` over the roofs at large sizes;
    ``scatter``, the root mean square of ln(measured / fitted)."""

    size: float
    low: float
    high: float
    floor_s: float
    slowdown: float
    scatter: float

    def time_s(self, bound_s: float) -> float:
        return self.floor_s + self.slowdown * bound_s


def fit_crossover(sizes: Sequence[float], times_s: Sequence[float], bounds_s: Sequence[float]) -> Crossover | None:
    """Least squares of ln t over the ratio floor / slowdown, the interval by a Bayesian bootstrap over the points
    (Rubin, Annals of Statistics 9(1), 1981).

    The interval is widened as Student's t is over the normal: a bootstrap of few points is too sure of itself.
    ``sizes`` ascend, and ``bounds_s`` with them. None with fewer than five points, or where the crossover does not lie
    between the smallest and the largest size: then one of the two parts was not seen.
    """
    import numpy

    known = [each for each in zip(sizes, times_s, bounds_s, strict=True) if min(each) > 0 and math.isfinite(sum(each))]
    if len({size for size, _, _ in known}) < LEAST_POINTS:
        return None
    size, time, bound = (numpy.array(column, dtype=float) for column in zip(*known, strict=True))
    even = numpy.full((1, len(time)), 1 / len(time))
    rough = numpy.geomspace(bound.min() / 10, bound.max() * 10, STEPS)
    about = float(rough[_scatter(_misfit(time, bound, rough), even).argmin()])
    if not bound.min() < about < bound.max():
        return None
    ratios = numpy.geomspace(about / NEAR, about * NEAR, STEPS)
    misfit = _misfit(time, bound, ratios)
    best = int(_scatter(misfit, even).argmin())
    ratio = float(ratios[best])
    weights = numpy.random.default_rng(SEED).dirichlet(numpy.ones(len(time)), DRAWS)
    drawn = ratios[_scatter(misfit, weights).argmin(axis=0)]
    wider = _student_95(len(time) - 2) / NORMAL_95 * math.sqrt(len(time) / (len(time) - 2))
    ends = [ratio * (float(end) / ratio) ** wider for end in numpy.quantile(drawn, [0.025, 0.975])]
    low, middle, high = (size_at(size.tolist(), bound.tolist(), value) for value in (ends[0], ratio, ends[1]))
    slowdown = math.exp(float(misfit[best].mean()))
    scatter = math.sqrt(float(_scatter(misfit, even)[best, 0]))
    return Crossover(middle, min(low, middle), max(high, middle), ratio * slowdown, slowdown, scatter)


def _misfit(time: NDArray[float64], bound: NDArray[float64], ratios: NDArray[float64]) -> NDArray[float64]:
    """ln(t / (ratio + bound)), ratios x points: ln(slowdown) is its mean over the points."""
    import numpy

    misfit: NDArray[float64] = numpy.log(time) - numpy.log(ratios[:, None] + bound)
    return misfit


def _student_95(freedom: int) -> float:
    """The 97.5 % point of Student's t (Abramowitz and Stegun 26.7.5)."""
    z = NORMAL_95
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _scatter(misfit: NDArray[float64], weights: NDArray[float64]) -> NDArray[float64]:
    """Variances (ratios x draws) of the misfit (ratios x points) under the weights of each draw (draws x points)."""
    mean = misfit @ weights.T
    scatter: NDArray[float64] = (misfit**2) @ weights.T - mean**2
    return scatter.clip(0.0)


def size_at(sizes: Sequence[float], values: Sequence[float], wanted: float) -> float:
    """The size at which a rising value reaches ``wanted``, by straight lines between logarithms, the first and the last
    of them prolonged."""
    pairs = list(itertools.pairwise(zip(sizes, values, strict=True)))
    chosen = next((pair for pair in pairs if pair[1][1] >= wanted and pair[1][1] > pair[0][1]), pairs[-1])
    (size, value), (next_size, next_value) = chosen
    if next_value <= value:
        return float(next_size)
    part = math.log(wanted / value) / math.log(next_value / value)
    return float(size * (next_size / size) ** part)
