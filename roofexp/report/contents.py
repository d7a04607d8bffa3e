"""What a sweep's folder holds for the page, and the links from the page to its files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from roofexp.errors import BadInputError
from roofexp.records import archive
from roofexp.records.archive import read_or_note, stored_config
from roofexp.records.machine import Machine, RoofSet
from roofexp.records.point import UNREADABLE, Point, unreadable
from roofexp.records.points_table import read_points_table
from roofexp.records.sweep_folder import POINT_FILES, SWEEP_FILES, read_roofs, read_sweep

Source = Literal["records", "packed", "table"]
ALLOWED = "allowed: the folder of one sweep, with N/point.json, points.jsonl.xz or points.csv in it"


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """``source`` says what the points were read from; ``problems`` what is missing or could not be read, a line each,
    ``damage`` the files among it."""

    folder: Path
    sweep: dict[str, Any]
    points: list[Point]
    folders: dict[int, Path]  # of each job; empty where records are packed or missing
    machines: dict[str, Machine]
    roofs: list[RoofSet]
    config: dict[str, Any] | None  # of the first job, interpolations resolved
    config_job: int | None
    source: Source
    problems: list[str]
    damage: list[str]

    @property
    def name(self) -> str:
        return str(self.sweep.get("name") or self.folder.resolve().name)

    def machine_name(self, machine_id: str | None) -> str:
        machine = self.machines.get(machine_id or "")
        return machine.name if machine else machine_id or "no machine"


def read_contents(folder: Path) -> Contents:
    """Raises BadInputError for a folder without a point. What is damaged beside the points is named in ``problems``."""
    if not folder.is_dir():
        raise BadInputError(f"{folder}: no such folder; {ALLOWED}")
    problems: list[str] = []
    sweep = read_or_note(lambda: read_sweep(folder), {}, problems)
    points, source = _read_points(folder)
    if not points:
        raise BadInputError(f"{folder}: no point that can be read; {ALLOWED}")
    folders = archive.job_folders(folder)
    job, config = _first_config(folder, folders, problems)
    roofs = read_or_note(lambda: read_roofs(folder), [], problems)
    machines = {roof_set.machine.machine_id: roof_set.machine for roof_set in roofs}
    return Contents(
        folder=folder,
        sweep=sweep,
        points=points,
        folders=folders,
        machines=machines | read_or_note(lambda: archive.read_sweep_machines(folder), {}, problems),
        roofs=roofs,
        config=config,
        config_job=job,
        source=source,
        problems=list(dict.fromkeys([*_unrecorded(folder), *(line.replace(f"{folder}/", "") for line in problems)])),
        damage=list(dict.fromkeys([*unreadable(points), *problems])),
    )


def _read_points(folder: Path) -> tuple[list[Point], Source]:
    points = archive.read_sweep_points(folder)
    if any(point.reason_kind != UNREADABLE for point in points):
        return points, "packed" if archive.is_packed(folder) else "records"
    try:
        from_table = read_points_table(folder / "points.csv")
    except BadInputError:
        if not points:
            raise
        return points, "records"
    return (from_table, "table") if from_table or not points else (points, "records")


def _unrecorded(folder: Path) -> list[str]:
    """Jobs that were begun and left no record."""
    begun = [own.parent.name for own in sorted(folder.glob("*/.hydra")) if not (own.parent / "point.json").exists()]
    if not begun:
        return []
    jobs = f"job {begun[0]} was" if len(begun) == 1 else f"jobs {', '.join(begun)} were"
    return [f"{jobs} begun and left no record; continue the sweep with resume="]


def _first_config(
    folder: Path, folders: dict[int, Path], problems: list[str]
) -> tuple[int | None, dict[str, Any] | None]:
    if archive.is_packed(folder):
        packed = read_or_note(lambda: archive.read_configs(folder, problems), {}, problems)
        return next(iter(sorted(packed.items(), key=lambda entry: entry[0])), (None, None))
    for job, own in sorted(folders.items()):
        try:
            return job, stored_config(own)
        except BadInputError:
            continue
    return None, None


class Link(NamedTuple):
    text: str  # the path from the sweep's folder: still says where to look on paper
    href: str


class Links:
    def __init__(self, contents: Contents, page: Path) -> None:
        self.contents, self.folder = contents, contents.folder
        self._base = page.resolve().parent

    def to(self, file: Path) -> Link | None:
        """None for a file that is not there."""
        if not file.is_file():
            return None
        return Link(
            file.relative_to(self.folder).as_posix(),
            quote(Path(os.path.relpath(file.resolve(), self._base)).as_posix()),
        )

    def named(self, *names: str) -> list[Link]:
        return [link for name in names if (link := self.to(self.folder / name))]

    def of_point(self, job: int) -> list[Link]:
        """The point's own files, or the packed ones that hold a line or rows of it."""
        own = self.contents.folders.get(job)
        if own is not None:
            return [link for name in POINT_FILES if (link := self.to(own / name))]
        return self.packed() or self.named("points.csv")

    def packed(self) -> list[Link]:
        return self.named(*archive.PACKED_FILES)

    def of_sweep(self) -> list[Link]:
        """Everything else that lies in the folder itself, so that nothing which was made goes unseen."""
        first = [*SWEEP_FILES, *archive.PACKED_FILES]
        others = [
            file.name for file in sorted(self.folder.iterdir()) if file.is_file() and not file.name.startswith(".")
        ]
        return self.named(*dict.fromkeys([*first, *(name for name in others if not name.endswith(".html"))]))
