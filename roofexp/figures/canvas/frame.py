"""The points table as figures need it: typed columns, which points can be drawn, and the texts that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from roofexp.figures.canvas.style import in_precision_order, joined, shortened
from roofexp.records.machine import COUNTED_LEVELS
from roofexp.text.numbers import engineering, percent, plain, size_name, span

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Row: TypeAlias = "Series[Any] | dict[str, Any]"  # one point

NUMBERS = [
    "size", "time_s", "time_mean_s", "time_p5_s", "time_p95_s", "flops", "traffic_bytes", "flops_per_s", "bytes_per_s",
    "intensity_flop_per_byte", "attainable_per_s", "fraction", "ridge_flop_per_byte", "compute_hz", "nvml_sm_hz",
    "duty", "power_w", "energy_per_launch_j", "flop_per_j", "byte_per_j", "working_set_bytes", "useful_bytes",
]  # fmt: skip
LEVEL_NUMBERS = [
    f"{name}_{level}_{unit}"
    for level in COUNTED_LEVELS
    for name, unit in (("counted", "bytes"), ("intensity", "flop_per_byte"))
]
TEXTS = [
    "kernel", "implementation", "precision", "clock_mode", "clock_asked", "cache_state", "fill", "device",
    "machine_id", "machine_name", "status", "reason", "traffic_level", "traffic_source", "roof", "bound", "cause",
    "next_move", "flags",
]  # fmt: skip

OTHERS = ("varying_params", "implementation", "cache_state", "held_by", "fill")  # what tells points of a size apart


def records(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows as plain mappings: a thousand of them are read ten times as fast as pandas' own."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


class Held(NamedTuple):
    """The clocks that points held: Hz."""

    median: float
    low: float
    high: float


def prepared(points: DataFrame) -> DataFrame:
    """The same rows with every column that figures read: numbers (missing or infinite: NaN) and texts (missing: "").

    Adds ``gid``, the id of the point's mark in the SVG; ``params``, its compile-time parameters in words, and
    ``varying_params``, those of them that differ between the kernel's points; ``held_by``, what was done about the
    clock; and energy per FLOP and byte where the energy of a launch is known.
    """
    import pandas

    frame = points.reset_index(drop=True).copy()
    for name in (*NUMBERS, *LEVEL_NUMBERS):
        column = frame[name] if name in frame else pandas.Series(float("nan"), index=frame.index)
        numbers = pandas.to_numeric(column, errors="coerce").astype(float)
        frame[name] = numbers.where(numbers.abs() != float("inf"))
    for name in TEXTS:
        column = frame[name] if name in frame else pandas.Series("", index=frame.index)
        frame[name] = column.astype(object).where(column.notna(), "").astype(str)
    frame["gid"] = [f"point-{i}" for i in frame.index]
    frame["params"] = _params(frame, _param_columns(frame))
    frame["varying_params"] = _varying_params(frame)
    frame["held_by"] = frame["clock_asked"].where(frame["clock_asked"] != "", frame["clock_mode"])
    frame["duty"] = frame["duty"].fillna(_duty(frame["clock_asked"]))
    energy = frame["energy_per_launch_j"].where(frame["energy_per_launch_j"] > 0)
    frame["flop_per_j"] = frame["flop_per_j"].fillna(frame["flops"] / energy)
    frame["byte_per_j"] = frame["byte_per_j"].fillna(frame["traffic_bytes"] / energy)
    return frame


def with_flops(frame: DataFrame) -> DataFrame:
    """The points that have a place on the roofline: a positive rate in FLOP/s and a positive intensity."""
    return frame[measured(frame) & (frame["flops_per_s"] > 0) & (frame["intensity_flop_per_byte"] > 0)]


def without_flops(frame: DataFrame) -> DataFrame:
    """The points that only move bytes: no FLOPs, a positive rate in B/s."""
    none = ~(frame["flops"] > 0) & ~(frame["flops_per_s"] > 0) & ~(frame["intensity_flop_per_byte"] > 0)
    return frame[measured(frame) & none & (frame["bytes_per_s"] > 0)]


def not_drawn(frame: DataFrame) -> str:
    """What is in the table and not in the figure, and why: "" when everything is drawn."""
    drawn = set(with_flops(frame).index) | set(without_flops(frame).index)
    rest = frame[[i not in drawn for i in frame.index]]
    parts = []
    for status in ("failed", "skipped"):
        rows = rest[rest["status"] == status]
        if len(rows):
            parts.append(f"{status}: {joined([short_name(row) for _, row in rows.iterrows()], 3)}")
    rows = rest[measured(rest)]
    if len(rows):
        names = joined([short_name(row) for _, row in rows.iterrows()], 3)
        parts.append(f"without a positive rate and intensity, which log axes need: {names}")
    return f"Not drawn: {'; '.join(parts)}." if parts else ""


def short_name(row: Series[Any]) -> str:
    return _full_name(row).replace(row["kernel"], shortened(row["kernel"], 24), 1)


def flag_names(flags: str) -> list[str]:
    """The names in a cell of the column ``flags``: parted by semicolons, because names have spaces."""
    return [name.strip() for name in flags.split(";") if name.strip()]


class Labels:
    """Names points by what tells them apart: words that all of them share are left to the line under the title."""

    def __init__(self, frame: DataFrame, leave_out: Sequence[str] = ()) -> None:
        """``leave_out``: columns that the figure shows otherwise."""
        self.precision = frame["precision"].nunique() > 1 and "precision" not in leave_out
        per_kernel = frame.groupby("kernel")
        names = [name for name in ("size", *OTHERS) if name not in leave_out]
        self.varying = {name: per_kernel[name].nunique().gt(1).to_dict() for name in names}

    def of(self, row: Series[Any]) -> list[str]:
        """For instance ``gemm 4096 bf16, 92 %``, and shorter ones for narrow axes."""
        words = self.words(row)
        name = " ".join(words)
        if row["fraction"] != row["fraction"]:
            return [name, words[0]]
        share = percent(row["fraction"])
        own = [word for word in words[1:] if word != row["precision"]]  # a mark shows its precision, not its kernel
        narrow = [f"{' '.join(own)} {share}"] if own else [f"{words[0]}, {share}", f"{shortened(words[0], 12)} {share}"]
        return [f"{name}, {share}", *narrow, share]

    def words(self, row: Series[Any]) -> list[str]:
        """The kernel, and what tells this point from its others."""
        words = [shortened(row["kernel"], 26)]
        if self._varies("size", row) and row["size"] > 0:
            words.append(size_name(row["size"]))
        if self.precision:
            words.append(row["precision"])
        words += [str(row[name]) for name in OTHERS if self._varies(name, row) and row[name]]
        return words

    def _varies(self, name: str, row: Series[Any]) -> bool:
        return bool(self.varying.get(name, {}).get(row["kernel"], False))


def hover(row: Row) -> str:
    """Everything a reader may ask of one mark, a line each."""
    how = [row["implementation"], row["params"], row["cache_state"], row["held_by"], row["fill"]]
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
        nvml = f" (NVML: {engineering(row['nvml_sm_hz'], 'Hz')})" if row["nvml_sm_hz"] > 0 else ""
        lines.append(f"clock held {engineering(row['compute_hz'], 'Hz')}{nvml}")
    if row["energy_per_launch_j"] > 0:
        at = f" at {engineering(row['power_w'], 'W')}" if row["power_w"] > 0 else ""
        lines.append(f"{engineering(row['energy_per_launch_j'], 'J')} per launch{at}")
    lines.append(f"flags: {row['flags']}" if row["flags"] else "")
    return "\n".join(line for line in lines if line)


def highest(rows: DataFrame, column: str) -> Series[Any]:
    """The point with the largest number in a column."""
    return rows.sort_values(column, kind="stable", na_position="first").iloc[-1]


def lowest(rows: DataFrame, column: str) -> Series[Any]:
    return rows.sort_values(column, kind="stable", na_position="last").iloc[0]


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


def measured(frame: DataFrame) -> Series[bool]:
    return ~frame["status"].isin(["failed", "skipped"])


def _param_columns(frame: DataFrame) -> list[str]:
    return [str(name) for name in frame.columns if str(name).startswith("param.")]


def _params(frame: DataFrame, columns: list[str]) -> list[str]:
    """``tile=8 unroll=4`` for each point."""
    words: list[list[str]] = [[] for _ in frame.index]
    for name in columns:
        for i, (value, present) in enumerate(zip(frame[name], frame[name].notna(), strict=True)):
            if present:
                words[i].append(f"{name[6:]}={plain(value, 6) if isinstance(value, float) else value}")
    return [" ".join(parts) for parts in words]


def _varying_params(frame: DataFrame) -> list[str]:
    texts = [""] * len(frame)
    columns = _param_columns(frame)
    for _, rows in frame.groupby("kernel", sort=False):
        varying = [name for name in columns if rows[name].nunique(dropna=False) > 1]
        for i, words in zip(rows.index, _params(rows, varying), strict=True):
            texts[i] = words
    return texts


def _duty(asked: Series[Any]) -> Series[Any]:
    """The share of the time in which the device worked, where the clock mode asked for one: ``duty 0.4``."""
    import pandas

    return pandas.to_numeric(asked.str.extract(r"duty[ =]([0-9.]+)", expand=False), errors="coerce")
