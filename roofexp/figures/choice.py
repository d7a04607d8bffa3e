"""Which points are named in the figure when not all can be: the ones that a reader would ask about first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame


def worth_naming(drawn: DataFrame, most: int) -> list[Any]:
    """Index labels of at most ``most`` points, the most important first.

    Above a roof, then nearest to and farthest below it, then the largest size of each kernel and precision, then
    flagged ones, then the smallest sizes, then the rest.
    """
    placed = drawn[drawn["fraction"] > 0].sort_values("fraction", kind="stable")
    by_size = drawn.sort_values("size", kind="stable")
    series = ["kernel", "precision"]
    order = [
        *placed[placed["bound"] == "above a roof"].index[::-1],
        *placed.index[-1:],
        *placed.index[:1],
        *_shuffled_by_kernel(by_size.groupby(series, sort=False).tail(1)),
        *drawn[drawn["flags"] != ""].index,
        *_shuffled_by_kernel(by_size.groupby(series, sort=False).head(1)),
        *by_size.index[::-1],
    ]
    return list(dict.fromkeys(order))[:most]


def _shuffled_by_kernel(rows: DataFrame) -> list[Any]:
    """One of each kernel before the second of any."""
    return list(rows.groupby("kernel", sort=False).cumcount().sort_values(kind="stable").index)
