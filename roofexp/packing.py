"""A sweep packed for publication: the records of all points in a few files, the same bytes for the same sweep."""

from __future__ import annotations

import csv
import io
import lzma
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from roofexp.archive import CONFIGS, KINDS, POINTS, packed_table, read_configs, read_sweep_points, read_tables
from roofexp.point import Point
from roofexp.sweep import read_sweep, write_sweep

KEPT = ("points.csv", "roofs.json", "reproduced.csv", "by_hand.csv", "faults.csv")
FIGURES = ("*.png", "*.svg", "*.csv")
OF_ONE_MACHINE = ("tracking", "outputs", "gate")  # keys that say where things lie, and nothing about the measurement
PLACES = tuple(
    f"{key}=" for key in ("outputs", "tracking.uri", "gate", "hydra.run.dir", "hydra.sweep.dir", "counters.ncu")
)


def pack(folder: Path, target: Path) -> None:
    """Writes the sweep in ``folder`` into the empty folder ``target``, without a report."""
    points = read_sweep_points(folder)
    (target / POINTS).write_bytes(packed_points(points))
    (target / CONFIGS).write_bytes(packed_configs(read_configs(folder)))
    for kind in KINDS:
        tables = read_tables(folder, kind)
        if tables:
            (target / packed_table(kind)).write_bytes(packed_rows(tables))
    write_sweep(target, portable_sweep(read_sweep(folder)))
    for name in KEPT:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, target / name)
    (target / "figures").mkdir()
    for pattern in FIGURES:
        for figure in sorted((folder / "figures").glob(pattern)):
            shutil.copyfile(figure, target / "figures" / figure.name)


def packed_points(points: Iterable[Point]) -> bytes:
    """A record a line, in job order."""
    portable_points = (msgspec.structs.replace(point, overrides=_without_places(point.overrides)) for point in points)
    return _compressed(b"".join(msgspec.json.encode(point) + b"\n" for point in portable_points))


def packed_configs(configs: dict[int, dict[str, Any]]) -> bytes:
    """A job's number and configuration a line."""
    entries = [{"job": job, "config": portable(configs[job])} for job in sorted(configs)]
    return _compressed(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))


def portable(config: dict[str, Any]) -> dict[str, Any]:
    """Without what is true of one machine only."""
    kept = {key: value for key, value in config.items() if key not in OF_ONE_MACHINE}
    if isinstance(kept.get("counters"), dict):
        kept["counters"] = {**kept["counters"], "ncu": None}
    return kept


def portable_sweep(sweep: dict[str, Any]) -> dict[str, Any]:
    """Without the overrides that say where things lie; what was done stays as it was typed."""
    kept = dict(sweep)
    for key in ("overrides", "arguments"):
        if key in kept:
            kept[key] = _without_places(kept[key])
    if "command" in kept:
        kept["command"] = " ".join(_without_places(str(kept["command"]).split(" ")))
    return kept


def _without_places(words: list[str]) -> list[str]:
    return [word for word in words if not word.lstrip("+").startswith(PLACES)]


def packed_rows(tables: dict[int, list[dict[str, str]]]) -> bytes:
    """The tables of all jobs as one, with a column ``job`` before theirs."""
    columns = list(dict.fromkeys(key for rows in tables.values() for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, ["job", *columns], lineterminator="\n")
    writer.writeheader()
    for job in sorted(tables):
        writer.writerows({"job": job, **row} for row in tables[job])
    return _compressed(text.getvalue().encode())


def _compressed(data: bytes) -> bytes:
    return lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
