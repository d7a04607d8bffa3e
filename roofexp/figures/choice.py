"""Which points are named in the figure when not all can be: the ones that a reader would ask about first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

SAME_PLACE = 0.02  # decades: nearer points cannot be told apart


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
    return _apart(drawn, list(dict.fromkeys(order)))[:most]


def _apart(drawn: DataFrame, order: list[Any]) -> list[Any]:
    """Without points that lie on one of their kernel that is named before: the names of both would say one thing."""
    taken: set[tuple[Any, ...]] = set()
    kept = []
    numbers = ("intensity_flop_per_byte", "flops_per_s", "bytes_per_s")
    columns = {name: drawn[name].to_dict() for name in ("kernel", "precision", *numbers)}
    for index in order:
        x, y, moved = (_step(columns[name][index]) for name in numbers)
        place = (columns["kernel"][index], columns["precision"][index], x, y if y is not None else moved)
        if place[-1] is None or place not in taken:
            kept.append(index)
        taken.add(place)
    return kept


def _shuffled_by_kernel(rows: DataFrame) -> list[Any]:
    """One of each kernel before the second of any."""
    return list(rows.groupby("kernel", sort=False).cumcount().sort_values(kind="stable").index)


def _step(number: float) -> int | None:
    return round(math.log10(number) / SAME_PLACE) if number > 0 else None
