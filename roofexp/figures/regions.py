"""What binds a kernel over its sizes: the launch (latency), then bandwidth, then compute, and where each begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from roofexp.figures.bounds import crossing_size
from roofexp.figures.crossover import Crossover, fit_crossover

if TYPE_CHECKING:
    from pandas import DataFrame

Binds = Literal["latency", "bandwidth", "compute"]


class Region(NamedTuple):
    """Sizes from ``start`` to ``end``; None where the region goes on past what was measured."""

    binds: Binds
    start: float | None
    end: float | None


def crossover(rows: DataFrame) -> Crossover | None:
    """The fit over points that differ in size alone, ascending, with their bounds (see bounds.with_bounds)."""
    bound_s = rows["time_s"] * rows["rate_per_s"] / rows["roof_per_s"]
    return fit_crossover(rows["size"].tolist(), rows["time_s"].tolist(), bound_s.tolist())


def ridge_size(rows: DataFrame) -> float | None:
    """The size at which the intensity passes the ridge; None where it does not, or at no size measured."""
    share = rows["bandwidth_per_s"] / rows["compute_per_s"]
    return crossing_size(rows["size"].tolist(), share.tolist(), 1.0)


def regions(rows: DataFrame, latency_end: float | None) -> list[Region]:
    """``latency_end``: the size at which the launch stops to matter; None where no size is latency-bound."""
    turn = ridge_size(rows)
    found = [Region("latency", None, latency_end)] if latency_end is not None else []
    if turn is None or (latency_end is not None and turn <= latency_end):
        last = rows.iloc[-1]
        binds: Binds = "compute" if last["compute_per_s"] < last["bandwidth_per_s"] else "bandwidth"
        return [*found, Region(binds, latency_end, None)] if last["roof_per_s"] > 0 else found
    return [*found, Region("bandwidth", latency_end, turn), Region("compute", turn, None)]
