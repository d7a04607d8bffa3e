"""A sweep in either of its layouts: a folder per point as it was measured, or packed for publication.

A packed folder holds the records of all points, their raw samples, clocks and counters, and their configurations, each
as one compressed file with a line per record or row. What works on a sweep reads it through here.
"""

from __future__ import annotations

import csv
import io
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofexp.errors import BadInputError
from roofexp.machine import Machine
from roofexp.point import Point, decode_point, read_point
from roofexp.stored import stored_config
from roofexp.sweep import read_machines, read_sweep

Kind = Literal["samples", "clocks", "counters"]
Rows = list[dict[str, str]]
POINTS, CONFIGS = "points.jsonl.xz", "configs.jsonl.xz"
KINDS: tuple[Kind, ...] = ("samples", "clocks", "counters")


def packed_table(kind: Kind) -> str:
    """The name of the file that holds a table of all points, with a column ``job``."""
    return f"{kind}.csv.xz"


PACKED_FILES = (POINTS, CONFIGS, *map(packed_table, KINDS))


def is_packed(folder: Path) -> bool:
    return (folder / POINTS).is_file()


def job_folders(folder: Path) -> dict[int, Path]:
    """The folder of every readable point, by job; of two with one number the newer. Empty in a packed sweep."""
    return {point.job: own for point, own in _found(folder)}


def read_sweep_points(folder: Path) -> list[Point]:
    """All readable points of a sweep in job order. Raises BadInputError for a packed file that cannot be read."""
    if not is_packed(folder):
        return sorted({point.job: point for point, _ in _found(folder)}.values(), key=lambda point: point.job)
    try:
        points = [decode_point(line, f"{folder / POINTS}") for line in _lines(folder / POINTS)]
    except ValueError as error:
        raise BadInputError(str(error)) from error
    return sorted(points, key=lambda point: point.job)


def read_tables(folder: Path, kind: Kind) -> dict[int, Rows]:
    """The rows of samples.csv, clocks.csv or counters.csv by job; jobs without such a file are left out."""
    if is_packed(folder):
        file = folder / packed_table(kind)
        tables: dict[int, Rows] = {}
        for row in csv.DictReader(io.StringIO(_unpacked(file).decode())) if file.is_file() else ():
            tables.setdefault(int(row.pop("job")), []).append(row)
        return tables
    files = {job: own / f"{kind}.csv" for job, own in job_folders(folder).items()}
    return {job: list(csv.DictReader(file.open(newline=""))) for job, file in files.items() if file.is_file()}


def read_sample_times(folder: Path) -> dict[int, list[float]]:
    """The raw times of one launch, in s and in the order of measuring, by job."""
    return {job: [float(row["time_s"]) for row in rows] for job, rows in read_tables(folder, "samples").items()}


def read_configs(folder: Path) -> dict[int, dict[str, Any]]:
    """The configuration of every point, interpolations resolved, by job; without those that cannot be read."""
    if is_packed(folder):
        lines = _lines(folder / CONFIGS) if (folder / CONFIGS).is_file() else ()
        return {entry["job"]: entry["config"] for entry in map(msgspec.json.decode, lines)}
    configs = {}
    for job, own in job_folders(folder).items():
        try:
            configs[job] = stored_config(own)
        except BadInputError:
            continue
    return configs


def read_sweep_machines(folder: Path) -> dict[str, Machine]:
    """The machines that took part, by id: from their files, or from sweep.yaml once it is complete."""
    try:
        described = read_sweep(folder).get("machines") or {}
        known = {key: msgspec.convert(value, Machine) for key, value in described.items()}
    except (ValueError, msgspec.ValidationError) as error:
        raise BadInputError(f"{folder / 'sweep.yaml'}: {error}") from error
    return known | read_machines(folder)


def _found(folder: Path) -> list[tuple[Point, Path]]:
    """Readable records with their folders, the oldest first."""
    found = []
    for file in folder.glob("*/point.json"):
        try:
            found.append((read_point(file), file.parent))
        except (ValueError, OSError):
            continue
    return sorted(found, key=lambda pair: pair[0].created)


def _lines(file: Path) -> Iterator[bytes]:
    return (line for line in _unpacked(file).splitlines() if line.strip())


def _unpacked(file: Path) -> bytes:
    try:
        return lzma.decompress(file.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise BadInputError(f"{file}: cannot be read ({error})") from error
