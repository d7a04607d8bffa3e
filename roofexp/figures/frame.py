"""The points table as figures need it: typed columns, the text that names each point, and what cannot be drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from roofexp.figures.style import in_precision_order, joined, shortened
from roofexp.units import engineering, percent, plain, size_name, span

if TYPE_CHECKING:
    from pandas import DataFrame, Series

NUMBERS = [
    "size",
    "time_s",
    "time_p5_s",
    "time_p95_s",
    "flops",
    "traffic_bytes",
    "flops_per_s",
    "bytes_per_s",
    "intensity_flop_per_byte",
    "attainable_per_s",
    "fraction",
    "ridge_flop_per_byte",
    "compute_hz",
]
TEXTS = [
    "kernel",
    "implementation",
    "precision",
    "clock_mode",
    "cache_state",
    "fill",
    "device",
    "machine_id",
    "status",
    "reason",
    "traffic_level",
    "traffic_source",
    "roof",
    "bound",
    "cause",
    "next_move",
    "flags",
]


class Held(NamedTuple):
    """The clocks that points held: Hz."""

    median: float
    low: float
    high: float


def prepared(points: DataFrame) -> DataFrame:
    """The same rows with every column that figures read: numbers (missing or infinite: NaN) and texts (missing: "").

    Adds ``gid``, the id of the point's mark in the SVG, and ``params``, its compile-time parameters in words.
    """
    import pandas

    frame = points.reset_index(drop=True).copy()
    for name in NUMBERS:
        column = frame[name] if name in frame else pandas.Series(float("nan"), index=frame.index)
        numbers = pandas.to_numeric(column, errors="coerce").astype(float)
        frame[name] = numbers.where(numbers.abs() != float("inf"))
    for name in TEXTS:
        column = frame[name] if name in frame else pandas.Series("", index=frame.index)
        frame[name] = column.astype(object).where(column.notna(), "").astype(str)
    frame["gid"] = [f"point-{i}" for i in frame.index]
    frame["params"] = [_params(frame, i) for i in frame.index]
    return frame


def with_flops(frame: DataFrame) -> DataFrame:
    """The points that have a place on the roofline: a positive rate in FLOP/s and a positive intensity."""
    return frame[_measured(frame) & (frame["flops_per_s"] > 0) & (frame["intensity_flop_per_byte"] > 0)]


def without_flops(frame: DataFrame) -> DataFrame:
    """The points that only move bytes: no FLOPs, a positive rate in B/s."""
    none = ~(frame["flops"] > 0) & ~(frame["flops_per_s"] > 0) & ~(frame["intensity_flop_per_byte"] > 0)
    return frame[_measured(frame) & none & (frame["bytes_per_s"] > 0)]


def not_drawn(frame: DataFrame) -> str:
    """What is in the table and not in the figure, and why: "" when everything is drawn."""
    drawn = set(with_flops(frame).index) | set(without_flops(frame).index)
    rest = frame[[i not in drawn for i in frame.index]]
    parts = []
    for status in ("failed", "skipped"):
        rows = rest[rest["status"] == status]
        if len(rows):
            parts.append(f"{status}: {joined([short_name(row) for _, row in rows.iterrows()], 3)}")
    rows = rest[_measured(rest)]
    if len(rows):
        names = joined([short_name(row) for _, row in rows.iterrows()], 3)
        parts.append(f"without a positive rate and intensity, so nowhere on log axes: {names}")
    return f"Not drawn: {'; '.join(parts)}." if parts else ""


def short_name(row: Series[Any]) -> str:
    return _full_name(row).replace(row["kernel"], shortened(row["kernel"], 24), 1)


def flag_names(flags: str) -> list[str]:
    """The names in a cell of the column ``flags``: parted by semicolons, because names have spaces."""
    return [name.strip() for name in flags.split(";") if name.strip()]


class Labels:
    """Names points by what tells them apart: words that all of them share are left to the line under the title."""

    def __init__(self, frame: DataFrame) -> None:
        self.precision = frame["precision"].nunique() > 1
        per_kernel = frame.groupby("kernel")
        self.varying = {
            name: per_kernel[name].nunique().gt(1).to_dict()
            for name in ("size", "params", "implementation", "cache_state", "clock_mode", "fill")
        }

    def of(self, row: Series[Any]) -> list[str]:
        """For instance ``gemm 4096 bf16, 92 %``, and shorter ones for narrow axes."""
        words = [shortened(row["kernel"], 26)]
        if self._varies("size", row) and row["size"] > 0:
            words.append(size_name(row["size"]))
        if self.precision:
            words.append(row["precision"])
        words += [
            str(row[name])
            for name in ("params", "implementation", "cache_state", "clock_mode", "fill")
            if self._varies(name, row) and row[name]
        ]
        name = " ".join(words)
        if row["fraction"] != row["fraction"]:
            return [name, words[0]]
        share = percent(row["fraction"])
        return [f"{name}, {share}", f"{' '.join(words[1:])} {share}".strip(), share]

    def _varies(self, name: str, row: Series[Any]) -> bool:
        return bool(self.varying[name].get(row["kernel"], False))


def hover(row: Series[Any]) -> str:
    """Everything a reader may ask of one mark, a line each."""
    how = [row["implementation"], row["params"], row["cache_state"], row["clock_mode"], row["fill"]]
    size = f"{size_name(row['size'])} " if row["size"] > 0 else ""  # a profiler's report knows no sizes
    lines = [f"{row['kernel']} {size}{row['precision']} ({', '.join(w for w in how if w)})".removesuffix(" ()")]
    if row["flops_per_s"] > 0:
        at = f" at {plain(row['intensity_flop_per_byte'])} FLOP/B" if row["intensity_flop_per_byte"] > 0 else ""
        lines.append(engineering(row["flops_per_s"], "FLOP/s") + at)
    if row["bytes_per_s"] > 0:
        source = f", {row['traffic_source']}" if row["traffic_source"] else ""
        level = f" through {row['traffic_level'].upper()}" if row["traffic_level"] else ""
        lines.append(f"{engineering(row['bytes_per_s'], 'B/s')}{level}{source}")
    if row["fraction"] > 0:
        lines.append(f"{percent(row['fraction'])} of {row['roof'] or 'its roof'}: {row['bound']}")
    lines += [row["cause"], f"next: {row['next_move']}" if row["next_move"] else ""]
    if row["time_s"] > 0:
        around = f" (p5 to p95: {span(row['time_p5_s'], row['time_p95_s'], 's')})" if row["time_p5_s"] > 0 else ""
        lines.append(f"{engineering(row['time_s'], 's')}{around}")
    if row["compute_hz"] > 0:
        lines.append(f"clock held {engineering(row['compute_hz'], 'Hz')}")
    lines.append(f"flags: {row['flags']}" if row["flags"] else "")
    return "\n".join(line for line in lines if line)


def precisions(frame: DataFrame) -> list[str]:
    return in_precision_order(name for name in frame["precision"] if name)


def held_clocks(rows: DataFrame) -> Held | None:
    """Median, lowest and highest clock of the points; None when none of them knows its clock."""
    clocks = rows["compute_hz"].dropna()
    clocks = clocks[clocks > 0]
    if clocks.empty:
        return None
    return Held(float(clocks.median()), float(clocks.min()), float(clocks.max()))


def _full_name(row: Series[Any]) -> str:
    words = [row["kernel"], size_name(row["size"]) if row["size"] > 0 else "", row["precision"]]
    return " ".join(word for word in words if word)


def _measured(frame: DataFrame) -> Series[bool]:
    return ~frame["status"].isin(["failed", "skipped"])


def _params(frame: DataFrame, i: int) -> str:
    words = []
    for name in frame.columns:
        if str(name).startswith("param.") and frame[name].notna()[i]:
            value = frame[name][i]
            words.append(f"{str(name)[6:]}={plain(value, 6) if isinstance(value, float) else value}")
    return " ".join(words)
