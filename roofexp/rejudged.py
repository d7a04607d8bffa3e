"""Points that were judged anew, written back in the layout that they were read from, with all that is made of them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roofexp.archive import POINTS, is_packed, job_folders
from roofexp.errors import BadInputError
from roofexp.point import Point, write_atomically, write_point
from roofexp.sweep import JUDGED_WITH, read_sweep, write_points_table, write_sweep


def write_judged(folder: Path, copy: Path | None, points: list[Point], given: Mapping[str, Any]) -> None:
    """Rewrites the sweep in ``folder``, or in ``copy``, which is made of it. ``given``: the thresholds and rules that
    are not those of the sweep's configurations; sweep.yaml keeps them. Raises BadInputError and OSError."""
    from roofexp.diagnosis.expected import write_expectations

    target = _copied(folder, copy) if copy is not None else folder
    _write_records(target, points)
    write_points_table(target, points)
    write_expectations(target, points)
    _note(target, given)
    _make_again(target)


def _copied(folder: Path, copy: Path) -> Path:
    if copy.exists():
        raise BadInputError(f"{copy} is there already; name a folder that is not there yet")
    shutil.copytree(folder, copy)
    return copy


def _write_records(folder: Path, points: list[Point]) -> None:
    from roofexp.packing import packed_points

    if is_packed(folder):
        write_atomically(folder / POINTS, packed_points(points))
        return
    folders = job_folders(folder)
    for point in points:
        write_point(folders[point.job], point)


def _note(folder: Path, given: Mapping[str, Any]) -> None:
    """A file of rules by its name alone: where it lies is true of one machine only."""
    sweep = read_sweep(folder)
    before = sweep.pop(JUDGED_WITH, None)
    if given:
        sweep[JUDGED_WITH] = {key: Path(value).name if key == "rules" else value for key, value in given.items()}
    if sweep and (given or before):
        write_sweep(folder, sweep)


def _make_again(folder: Path) -> None:
    """Figures and page, where the sweep has them. One that cannot be made is a line: the records are written."""
    from roofexp.report import write_report
    from roofexp.report.contents import read_contents
    from roofexp.report.page import REPORT
    from roofexp.report.redraw import redraw

    try:
        if any((folder / "figures").glob("*.svg")):
            redraw(read_contents(folder))
        if (folder / REPORT).is_file():
            write_report(folder)
    except Exception as error:  # whatever a damaged file or the plotting libraries raise
        print(
            f"roofexp.diagnose: {type(error).__name__}: {error}; figures and page are as before: "
            f"python -m roofexp.report {folder} --redraw",
            file=sys.stderr,
        )
