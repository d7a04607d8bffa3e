"""The table beside a figure: one row for each vertex that is drawn, unit in every column name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

    from roofexp.figures.frame import Row

POINT_COLUMNS = [
    "job",
    "kernel",
    "implementation",
    "size",
    "precision",
    "params",
    "clock_mode",
    "cache_state",
    "traffic_level",
    "traffic_source",
    "fraction",
    "roof",
    "bound",
    "flags",
]


class Table:
    """Collects vertices while they are drawn."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def line(self, kind: str, name: str, vertices: list[dict[str, float]], **facts: Any) -> None:
        """A line of several vertices; each of them names its axes by column, e.g. ``flops_per_s``."""
        self.rows += [{"kind": kind, "name": name, **vertex, **facts} for vertex in vertices]

    def point(self, row: Row, vertex: dict[str, float], **facts: Any) -> None:
        known = {name: row[name] for name in POINT_COLUMNS if name in row}
        self.rows.append({"kind": "point", "name": row["gid"], **vertex, **known, **facts})

    def frame(self) -> DataFrame:
        import pandas

        return pandas.DataFrame(self.rows)
