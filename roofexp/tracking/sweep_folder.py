"""A sweep as it lies in its folder. The files are the truth; any of them may be missing after a kill."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from roofexp.archive import PACKED_FILES, is_packed, read_sweep_points
from roofexp.errors import BadInputError
from roofexp.point import Point, read_point
from roofexp.sweep import read_sweep as read_description

PAGES = ("report.html", "gate.xml", "gate.md", "gate.yaml")
SWEEP_FILES = ("sweep.yaml", "points.csv", "roofs.json", *PAGES, *PACKED_FILES)
FIGURES = ("*.png", "*.svg", "*.csv")
POINT_FILES = (  # hydra.yaml is left out: it says nothing about the point
    "point.json",
    "samples.csv",
    "clocks.csv",
    "counters.csv",
    "error.txt",
    ".hydra/config.yaml",
    ".hydra/overrides.yaml",
)


class SweepFolder(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a sweep's folder. ``points`` maps a job's number to its record and folder, in that order."""

    folder: Path
    sweep: dict[str, Any]
    points: dict[int, tuple[Point, Path]]
    machines: dict[str, str]  # machine_id to name

    @property
    def sweep_id(self) -> str:
        return str(self.sweep["sweep_id"])

    @property
    def records(self) -> list[Point]:
        return [point for point, _ in self.points.values()]

    def machine_of(self, point: Point) -> str | None:
        return self.machines.get(point.machine_id or "")


def read_sweep(folder: Path) -> SweepFolder:
    """Raises BadInputError for a folder with neither sweep.yaml nor a point in it."""
    points = _read_points(folder)
    sweep: dict[str, Any] = {}
    with contextlib.suppress(ValueError, OSError):  # the points are worth mirroring without it
        sweep = read_description(folder)
    if not sweep and not points:
        what = "no sweep in it (no sweep.yaml, no */point.json)" if folder.is_dir() else "no such folder"
        raise BadInputError(f"{folder}: {what}; allowed: the folder of one sweep, e.g. outputs/gemm/<date_time>")
    if not sweep.get("sweep_id"):
        first = next(iter(points.values()), None)
        sweep = {**sweep, "sweep_id": first[0].sweep_id if first else folder.resolve().name}
    return SweepFolder(folder=folder, sweep=sweep, points=points, machines=read_machines(folder, sweep))


def _read_points(folder: Path) -> dict[int, tuple[Point, Path]]:
    """A point that was measured again into another folder counts once: the newest record. Those of a published sweep
    have no folder of their own; its packed files are kept on the parent run."""
    if is_packed(folder):
        return {point.job: (point, folder / str(point.job)) for point in read_sweep_points(folder)}
    found: list[tuple[Point, Path]] = []
    for file in folder.glob("*/point.json"):
        try:
            found.append((read_point(file), file.parent))
        except (ValueError, OSError):
            continue
    newest = {point.job: (point, path) for point, path in sorted(found, key=lambda pair: pair[0].created)}
    return dict(sorted(newest.items()))


def read_machines(folder: Path, sweep: Mapping[str, Any]) -> dict[str, str]:
    """machine_id to name, wherever sweep.yaml or the sweep's JSON files describe a machine."""
    names = dict(_machines_in(dict(sweep)))
    for file in (folder / "roofs.json", *sorted(folder.glob("machine-*.json"))):
        try:
            names |= dict(_machines_in(json.loads(file.read_bytes())))
        except (OSError, ValueError):
            continue
    return names


def _machines_in(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        if isinstance(value.get("machine_id"), str) and isinstance(value.get("name"), str):
            yield value["machine_id"], value["name"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _machines_in(item)


def sweep_files(folder: Path) -> list[tuple[Path, str]]:
    """The files kept on the parent run, each with its folder there ("" is the top)."""
    files = [(folder / name, "") for name in SWEEP_FILES]
    files += [(file, "figures") for kind in FIGURES for file in sorted((folder / "figures").glob(kind))]
    return [(file, place) for file, place in files if file.is_file()]


def point_files(folder: Path) -> list[tuple[Path, str]]:
    """The files kept on a child run, each with its folder there."""
    files = [(folder / name, ".hydra" if name.startswith(".hydra") else "") for name in POINT_FILES]
    return [(file, place) for file, place in files if file.is_file()]
