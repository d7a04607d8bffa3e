"""Where the ridge stood: for each precision, at the clocks that its points held, in bursts and under sustained load.

Pure: frame and roofs in, ridges out. With several thread counts of one CPU, each count is a stage in the place of a
clock: both of its roofs differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from roofexp.figures.canvas.frame import flag_names, precisions
from roofexp.figures.canvas.roof_lines import main_level
from roofexp.figures.canvas.style import joined
from roofexp.records.machine import Roof, RoofSet

if TYPE_CHECKING:
    from pandas import DataFrame

What = Literal["held", "burst", "sustained"]
APART = 1.03  # ridges nearer to each other than this have not moved
SAME_CLOCK = 1.01  # points within this held one clock
SAME_PLACE = 0.03  # relative: kernels nearer to each other are one line
MOST_STAGES = 6  # of a precision
UNSTEADY = {"clock moved", "machine not quiet"}  # flags of points


class Ridge(NamedTuple):
    """Where a compute roof (FLOP/s) meets a bandwidth roof (B/s), both at the clock. Unknown numbers are NaN."""

    number: int  # within its precision, in order of clock (or threads)
    precision: str
    what: What
    asked: str  # what was done about the clock: "duty 0.4", "observe"
    stage: float  # clock in Hz, or threads: what the ridge moves with
    compute_hz: float
    nvml_sm_hz: float
    compute: float
    bandwidth: float
    roof: str
    level: str  # of the bandwidth
    incomplete: bool  # whether the compute roof is only a lower bound

    @property
    def intensity(self) -> float:
        return self.compute / self.bandwidth


def ridges(frame: DataFrame, roof_sets: Sequence[RoofSet]) -> list[Ridge]:
    """The ridges of all precisions with a measured compute roof, precision after precision, by clock (or threads).

    The bandwidth is that of the memory level that most points are counted at.
    """
    level = main_level(frame)
    by_threads = len({roofs.machine.machine_id for roofs in roof_sets}) > 1
    numbered: list[Ridge] = []
    for precision in precisions(frame):
        rows = frame[frame["precision"] == precision]
        own = [ridge for roofs in _one_of_each(roof_sets) for ridge in _of_machine(rows, roofs, level, by_threads)]
        own.sort(key=lambda ridge: (ridge.stage, ridge.what != "held"))
        numbered += [ridge._replace(number=i + 1) for i, ridge in enumerate(own)]
    return numbered


def moved(path: Sequence[Ridge]) -> list[str]:
    """The precisions whose ridge stood at different places."""
    at: dict[str, list[float]] = {}
    for ridge in path:
        at.setdefault(ridge.precision, []).append(ridge.intensity)
    return [name for name, places in at.items() if max(places) / min(places) > APART]


def _one_of_each(roof_sets: Sequence[RoofSet]) -> list[RoofSet]:
    """One set of each machine: the others are those of other clock modes, and roofs are redrawn at any clock."""
    return list({roofs.machine.machine_id: roofs for roofs in reversed(roof_sets)}.values())[::-1]


def _of_machine(rows: DataFrame, roofs: RoofSet, level: str, by_threads: bool) -> list[Ridge]:
    precision = str(rows["precision"].iloc[0])
    compute, bandwidth = roofs.compute(precision), roofs.bandwidth(level)
    rows = rows[(rows["machine_id"] == roofs.machine.machine_id) & (rows["compute_hz"] > 0)]
    if compute is None or bandwidth is None or rows.empty:
        return []
    asked, steady = rows["held_by"].nunique() > 1, _steady(rows)
    if not asked and len(steady):
        rows = steady
    rows = _past_the_ridge(rows, compute, bandwidth)
    if by_threads:
        return [_held(rows, compute, bandwidth)._replace(stage=float(roofs.machine.units or 1))]
    # a CPU's clock is read beside the timing and jitters by a few per cent; a GPU's is counted over all of it
    separable = asked or (len(steady) > 0 and roofs.machine.device == "cuda")
    parts = clusters(rows) if separable else [rows]
    held = [_held(part, compute, bandwidth) for part in parts]
    return held + _burst_and_sustained(compute, bandwidth, precision)


def _steady(rows: DataFrame) -> DataFrame:
    """Points whose clock is known: one that moved while it was read, or that other programs took part in, is no clock
    that a ridge stood at. Where clocks were asked for, what was asked tells them apart all the same."""
    return rows[[not UNSTEADY & set(flag_names(flags)) for flags in rows["flags"]]]


def _past_the_ridge(rows: DataFrame, compute: Roof, bandwidth: Roof) -> DataFrame:
    """The points that the compute roof is there for; all where none is. A power-limited chip holds quite another clock
    while it waits for memory."""
    past = rows[rows["intensity_flop_per_byte"] * bandwidth.rate >= compute.rate]
    busy = past[past["fraction"] >= 0.5]
    return next((points for points in (busy, past) if len(points)), rows)


def clusters(rows: DataFrame) -> list[DataFrame]:
    """The points by the clock that they held, ascending; so coarse that at most ``MOST_STAGES`` remain."""
    ordered, width = rows.sort_values("compute_hz", kind="stable"), SAME_CLOCK
    while True:
        parts: list[list[object]] = []
        start = 0.0
        for index, hz in ordered["compute_hz"].items():
            if hz > width * start:
                parts.append([])
                start = float(hz)
            parts[-1].append(index)
        if len(parts) <= MOST_STAGES:
            return [ordered.loc[part] for part in parts]
        width = 1 + 1.5 * (width - 1)


def _held(rows: DataFrame, compute: Roof, bandwidth: Roof) -> Ridge:
    asked = joined(sorted(set(rows["held_by"]) - {""}), 4)
    hz, nvml_hz = float(rows["compute_hz"].median()), float(rows["nvml_sm_hz"].median())
    return _ridge(str(rows["precision"].iloc[0]), "held", asked, hz, nvml_hz, compute, compute.at(hz), bandwidth)


def _burst_and_sustained(compute: Roof, bandwidth: Roof, precision: str) -> list[Ridge]:
    """The roof as it was measured, in bursts, and what remained of it under load that did not pause."""
    held = compute.sustained
    if held is None or held.compute_hz is None or compute.compute_hz is None:
        return []
    measured: list[tuple[What, float, float]] = [
        ("sustained", held.compute_hz, held.rate),
        ("burst", compute.compute_hz, compute.rate),
    ]
    return [_ridge(precision, what, what, hz, float("nan"), compute, rate, bandwidth) for what, hz, rate in measured]


def _ridge(
    precision: str, what: What, asked: str, hz: float, nvml_hz: float, compute: Roof, rate: float, bandwidth: Roof
) -> Ridge:
    """``rate``: of the compute roof at the clock ``hz``."""
    return Ridge(
        number=0,
        precision=precision,
        what=what,
        asked=asked,
        stage=hz,
        compute_hz=hz,
        nvml_sm_hz=nvml_hz,
        compute=rate,
        bandwidth=bandwidth.at(hz),
        roof=compute.name,
        level=bandwidth.name,
        incomplete=compute.incomplete is not None,
    )


class Crossing(NamedTuple):
    """A kernel on the path of its precision's ridge. ``turns_at`` is the stage (clock in Hz, or threads) at which it
    changes from compute-bound to bandwidth-bound; None where it stays on one side."""

    name: str
    kernel: str
    precision: str
    intensity: float
    side: Literal["bandwidth", "compute", "both"]
    turns_at: float | None
    rows: DataFrame

    @property
    def turned(self) -> bool:
        """Whether its own points lie on both sides of the ridge, each at the clock that it held: the ridges of other
        kernels may pass one that never changed its side."""
        placed = self.rows[self.rows["ridge_flop_per_byte"] > 0]
        return bool((placed["intensity_flop_per_byte"] < placed["ridge_flop_per_byte"]).nunique() == 2)


def crossings(frame: DataFrame, path: Sequence[Ridge], names: Sequence[str]) -> list[Crossing]:
    """Where each kernel stands to the ridges of its precision; those that change sides first, then the nearest.

    ``names``: a name for each row; rows of one name and precision are one kernel at the median of their intensities.
    """
    kernels = []
    for (precision, name), rows in frame.assign(named=list(names)).groupby(["precision", "named"], sort=False):
        own = [ridge for ridge in path if ridge.precision == precision]
        at = float(rows["intensity_flop_per_byte"].median())
        if own and at > 0:
            kernel = str(rows["kernel"].iloc[0])
            kernels.append(Crossing(str(name), kernel, str(precision), at, *_side(at, own), rows))
    return sorted(kernels, key=lambda kernel: (kernel.side != "both", _distance(kernel, path)))


def apart(kernels: Sequence[Crossing]) -> list[Crossing]:
    """Without those that stand where another of their precision stands already."""
    kept: list[Crossing] = []
    for kernel in kernels:
        own = (other for other in kept if other.precision == kernel.precision)
        if all(abs(other.intensity / kernel.intensity - 1) >= SAME_PLACE for other in own):
            kept.append(kernel)
    return kept


def _side(intensity: float, own: Sequence[Ridge]) -> tuple[Literal["bandwidth", "compute", "both"], float | None]:
    low, high = min(own, key=lambda r: r.intensity), max(own, key=lambda r: r.intensity)
    if intensity < low.intensity:
        return "bandwidth", None
    if intensity >= high.intensity:
        return "compute", None
    part = (intensity - low.intensity) / (high.intensity - low.intensity)
    return "both", low.stage + part * (high.stage - low.stage)


def _distance(kernel: Crossing, path: Sequence[Ridge]) -> float:
    """To the nearest ridge of its precision, as a ratio."""
    own = [ridge.intensity for ridge in path if ridge.precision == kernel.precision]
    return min(max(kernel.intensity / at, at / kernel.intensity) for at in own)
