"""The three bounds of a size sweep (launch floor, bandwidth, compute) and the size at which a share is reached."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofexp.machine import RoofSet

if TYPE_CHECKING:
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
    known = [bounds[name] for name in BOUNDS[1:] if bounds[name] > 0]
    roof = min(known) if known else row["attainable_per_s"]
    ends = {"rate_low_per_s": work / row["time_p95_s"], "rate_high_per_s": work / row["time_p5_s"]}
    return {**bounds, "roof_per_s": roof, "rate_per_s": rate, **ends, "share": rate / roof if roof > 0 else math.nan}


def crossing_size(sizes: Sequence[float], shares: Sequence[float], wanted: float) -> float | None:
    """The size at which the share first rises to ``wanted``, by a straight line between logarithms.

    ``sizes`` ascend. None where the share starts at or above it, or never reaches it.
    """
    known = [(size, share) for size, share in zip(sizes, shares, strict=True) if size > 0 and share > 0]
    if not known or known[0][1] >= wanted:
        return None
    for (size, share), (next_size, next_share) in itertools.pairwise(known):
        if share < wanted <= next_share:
            part = math.log(wanted / share) / math.log(next_share / share)
            return float(size * (next_size / size) ** part)
    return None
