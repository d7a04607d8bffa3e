"""The bounds of a size sweep (launch floor, bandwidth, compute) and the sizes at which another one binds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from roofexp.records.machine import RoofSet

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray
    from pandas import DataFrame, Series

BOUNDS = ("launch_per_s", "bandwidth_per_s", "compute_per_s")


def with_bounds(rows: DataFrame, roofs: RoofSet | None) -> DataFrame:
    """Adds to each point what bounds it, in FLOP/s (B/s without FLOPs): ``launch_per_s`` (all work in one launch
    floor), ``bandwidth_per_s``, ``compute_per_s``, and ``roof_per_s``, the smaller of the last two. Roofs are those at
    the clock that the point held; NaN where one was not measured.

    Also ``rate_per_s`` with its ends at the 95th and 5th percentile of time, ``rate_low_per_s`` and
    ``rate_high_per_s``, and ``share``, the rate over ``roof_per_s``.
    """
    import pandas

    columns = [_bounds(row, roofs) for _, row in rows.iterrows()]
    return rows.join(pandas.DataFrame(columns, index=rows.index, dtype=float))


def _bounds(row: Series[Any], roofs: RoofSet | None) -> dict[str, float]:
    has_flops = row["flops_per_s"] > 0
    rate = row["flops_per_s"] if has_flops else row["bytes_per_s"]
    work = rate * row["time_s"]
    hz = row["compute_hz"] if row["compute_hz"] > 0 else None
    launch = roofs.launch() if roofs else None
    bandwidth = roofs.bandwidth(row["traffic_level"] or "dram") if roofs else None
    compute = roofs.compute(row["precision"]) if roofs and has_flops else None
    bounds = {
        "launch_per_s": work / launch.rate if launch else math.nan,
        "bandwidth_per_s": bandwidth.at(hz) if bandwidth else math.nan,
        "compute_per_s": compute.at(hz) if compute else math.nan,
    }
    if has_flops:
        bounds["bandwidth_per_s"] *= row["intensity_flop_per_byte"]
    roof = min((bounds[name] for name in BOUNDS[1:] if bounds[name] > 0), default=row["attainable_per_s"])
    ends = {"rate_low_per_s": work / row["time_p95_s"], "rate_high_per_s": work / row["time_p5_s"]}
    return {**bounds, "roof_per_s": roof, "rate_per_s": rate, **ends, "share": rate / roof if roof > 0 else math.nan}


def crossing_size(sizes: Sequence[float], shares: Sequence[float], target: float) -> float | None:
    """The size at which the share first rises to ``target``, by a straight line between logarithms.

    ``sizes`` ascend. None where the share starts at or above it, or never reaches it.
    """
    points = [(size, share) for size, share in zip(sizes, shares, strict=True) if size > 0 and share > 0]
    if not points or points[0][1] >= target:
        return None
    pairs = (pair for pair in itertools.pairwise(points) if pair[0][1] < target <= pair[1][1])
    return next((_between(*pair, target) for pair in pairs), None)


def _between(first: tuple[float, float], last: tuple[float, float], target: float) -> float:
    """The size at which a straight line between logarithms through two (size, value) reaches ``target``."""
    part = math.log(target / first[1]) / math.log(last[1] / first[1])
    return float(first[0] * (last[0] / first[0]) ** part)


LEAST_POINTS = 5  # two parameters, and something left to judge the fit by
STEPS = 400  # of the grid over the crossover
DRAWS = 400
NEAR = 5.0  # the second, fine grid reaches this far from the best of the first
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
    from scipy import stats

    points = [p for p in zip(sizes, times_s, bounds_s, strict=True) if min(p) > 0 and math.isfinite(sum(p))]
    if len({size for size, _, _ in points}) < LEAST_POINTS:
        return None
    size, time, bound = (numpy.array(column, dtype=float) for column in zip(*points, strict=True))
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
    wider = stats.t.ppf(0.975, len(time) - 2) / stats.norm.ppf(0.975) * math.sqrt(len(time) / (len(time) - 2))
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


def _scatter(misfit: NDArray[float64], weights: NDArray[float64]) -> NDArray[float64]:
    """Variances (ratios x draws) of the misfit (ratios x points) under the weights of each draw (draws x points)."""
    mean = misfit @ weights.T
    scatter: NDArray[float64] = (misfit**2) @ weights.T - mean**2
    return scatter.clip(0.0)


def size_at(sizes: Sequence[float], values: Sequence[float], target: float) -> float:
    """The size at which a rising value reaches ``target``, by straight lines between logarithms, the first and the last
    of them prolonged."""
    pairs = list(itertools.pairwise(zip(sizes, values, strict=True)))
    first, last = next((pair for pair in pairs if pair[1][1] >= target and pair[1][1] > pair[0][1]), pairs[-1])
    return _between(first, last, target) if last[1] > first[1] else float(last[0])


Binds = Literal["latency", "bandwidth", "compute"]


class Region(NamedTuple):
    """Sizes from ``start`` to ``end``; None where the region goes on past what was measured."""

    binds: Binds
    start: float | None
    end: float | None


def crossover(rows: DataFrame) -> Crossover | None:
    """The fit over points that differ in size alone, ascending, with their bounds (see with_bounds)."""
    bound_s = rows["time_s"] * rows["rate_per_s"] / rows["roof_per_s"]
    return fit_crossover(rows["size"].tolist(), rows["time_s"].tolist(), bound_s.tolist())


def ridge_size(rows: DataFrame) -> float | None:
    """The size at which the intensity passes the ridge; None where it does not, or at no size measured."""
    share = rows["bandwidth_per_s"] / rows["compute_per_s"]
    return crossing_size(rows["size"].tolist(), share.tolist(), 1.0)


def regions(rows: DataFrame, latency_end: float | None) -> list[Region]:
    """``latency_end``: the size at which the launch stops mattering; None where no size is latency-bound."""
    turn = ridge_size(rows)
    parts = [Region("latency", None, latency_end)] if latency_end is not None else []
    if turn is None or (latency_end is not None and turn <= latency_end):
        last = rows.iloc[-1]
        binds: Binds = "compute" if last["compute_per_s"] < last["bandwidth_per_s"] else "bandwidth"
        return [*parts, Region(binds, latency_end, None)] if last["roof_per_s"] > 0 else parts
    return [*parts, Region("bandwidth", latency_end, turn), Region("compute", turn, None)]
