"""One of the two sweeps that are compared: its points with what is known of their times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from roofexp.archive import read_sample_times, read_sweep_machines, read_sweep_points
from roofexp.clocks.modes import roofs_of
from roofexp.compare.significance import Estimate, estimate, estimate_from_interval
from roofexp.errors import BadInputError
from roofexp.machine import Machine, RoofSet
from roofexp.point import Point
from roofexp.sweep import read_roofs, read_sweep

ALLOWED = "allowed: the folder of one sweep, e.g. outputs/gemm/<date_time>, or the MLflow id of a sweep's run"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` stands for the sweep in texts; ``samples`` holds raw times in s by job."""

    name: str
    folder: Path
    points: list[Point]
    samples: dict[int, list[float]]
    machines: dict[str, Machine]
    roofs: list[RoofSet]
    description: dict[str, Any]

    def estimate(self, point: Point) -> Estimate:
        """Of a timed point: from its raw samples, else from the interval in its record."""
        assert point.timing
        times = self.samples.get(point.job)
        if times and min(times) > 0:
            return estimate(times)
        timing = point.timing
        return estimate_from_interval(timing.median_s, timing.low_s, timing.high_s, timing.samples)

    def machine_name(self, point: Point) -> str:
        machine = self.machines.get(point.machine_id or "")
        return machine.name if machine else point.machine_id or "unknown machine"

    def roofs_of(self, point: Point) -> RoofSet | None:
        return roofs_of(point, self.roofs)


def read_side(folder: Path, name: str | None = None) -> Side:
    """Raises BadInputError for a folder without a point in it."""
    if not folder.is_dir():
        raise BadInputError(f"{folder}: no such folder; {ALLOWED}")
    points = read_sweep_points(folder)
    if not points:
        raise BadInputError(f"{folder}: no points in it; {ALLOWED}")
    try:
        description = read_sweep(folder)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    return Side(
        name=name or folder.resolve().name,
        folder=folder,
        points=points,
        samples=_samples(folder),
        machines=read_sweep_machines(folder),
        roofs=read_roofs(folder),
        description=description,
    )


def _samples(folder: Path) -> dict[int, list[float]]:
    try:
        return read_sample_times(folder)
    except (KeyError, ValueError) as error:
        raise BadInputError(f"{folder}: its samples cannot be read ({error}); allowed: a column time_s in s") from error
