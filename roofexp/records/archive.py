"""What Hydra stored of a job beside its record: enough to build its kernel again."""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofexp.config.input_files import (
    LARGEST_BYTES,
    LARGEST_RECORDS,
    Rows,
    as_type,
    decode_json,
    parse_table,
    read_table,
    unpacked,
)
from roofexp.config.plain import plain
from roofexp.config.yaml_file import read_yaml
from roofexp.errors import BadInputError, DamagedFileError
from roofexp.records.files import table_bytes
from roofexp.records.machine import Machine
from roofexp.records.point import UNREADABLE, Point, decode_point_or_failure, read_point_or_failure, unreadable
from roofexp.records.quantities import Count, Duration
from roofexp.records.sweep_folder import read_machines, read_sweep, write_sweep


def stored_config(folder: Path) -> dict[str, Any]:
    """The configuration of the job in ``folder``, all interpolations resolved. Raises BadInputError."""
    from omegaconf import OmegaConf

    return plain(OmegaConf.create(read_yaml(folder / ".hydra/config.yaml")))


Kind = Literal["samples", "clocks", "counters"]
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
    return {point.job: own for point, own in _records(folder)}


def read_sweep_points(folder: Path) -> list[Point]:
    """All points of a sweep in job order; a record that cannot be read is a failed point. Raises DamagedFileError for a
    packed file that cannot be unpacked."""
    if is_packed(folder):
        file = folder / POINTS
        points = [decode_point_or_failure(line, f"{file} line {number + 1}", number) for number, line in _lines(file)]
        if points and len(unreadable(points)) == len(points):
            raise DamagedFileError(unreadable(points)[0])
        points = _apart(points, [point.reason_kind == UNREADABLE for point in points])
    else:
        points = [point for point, _ in _records(folder)]
    return sorted({point.job: point for point in points}.values(), key=lambda point: point.job)


def _apart(points: list[Point], nameless: list[bool]) -> list[Point]:
    """Points whose number is only assumed get one that no other has."""
    taken = {point.job for point, assumed in zip(points, nameless, strict=True) if not assumed}
    apart = []
    for point, assumed in zip(points, nameless, strict=True):
        if assumed and point.job in taken:
            point = msgspec.structs.replace(point, job=max(taken) + 1)
        taken.add(point.job)
        apart.append(point)
    return apart


def read_tables(folder: Path, kind: Kind, problems: list[str] | None = None) -> dict[int, Rows]:
    """The rows of samples.csv, clocks.csv or counters.csv by job; jobs without such a file are left out. A file that
    cannot be read raises DamagedFileError, or is a line of ``problems`` where these are wanted."""
    if is_packed(folder):
        file = folder / packed_table(kind)
        return read_or_note(lambda: _by_job(file), {}, problems) if file.exists() else {}
    tables = {}
    for job, own in job_folders(folder).items():
        file = own / f"{kind}.csv"
        rows = read_or_note(partial(read_table, file), None, problems) if file.exists() else None
        if rows is not None:
            tables[job] = rows
    return tables


def _by_job(file: Path) -> dict[int, Rows]:
    tables: dict[int, Rows] = {}
    for number, row in enumerate(parse_table(unpacked(file, LARGEST_BYTES), str(file))):
        job = row.pop("job", "")
        if not job.isdecimal():
            raise DamagedFileError(f"{file}: row {number + 1} names no job")
        tables.setdefault(int(job), []).append(row)
    return tables


def read_sample_times(folder: Path, problems: list[str] | None = None) -> dict[int, list[float]]:
    """The raw times of one launch, in s and in the order of measuring, by job. ``problems`` as in ``read_tables``."""
    times = {}
    for job, rows in read_tables(folder, "samples", problems).items():
        own = read_or_note(partial(_times, rows, f"{folder}: the samples of job {job}"), None, problems)
        if own is not None:
            times[job] = own
    return times


def _times(rows: Rows, where: str) -> list[float]:
    texts = [row.get("time_s", "no column time_s") for row in rows]
    return list(as_type(texts, list[Duration], where, strict=False))


def read_configs(folder: Path, problems: list[str] | None = None) -> dict[int, dict[str, Any]]:
    """The configuration of every point, interpolations resolved, by job; without those that cannot be read, which are
    lines of ``problems`` where these are wanted."""
    configs = {}
    if is_packed(folder):
        file = folder / CONFIGS
        for number, line in _lines(file) if file.exists() else ():
            where = f"{file} line {number + 1}"
            entry = read_or_note(partial(_entry, line, where), None, problems if problems is not None else [])
            if entry is not None:
                configs[entry.job] = entry.config
        return configs
    for job, own in job_folders(folder).items():
        config = read_or_note(partial(stored_config, own), None, problems if problems is not None else [])
        if config is not None:
            configs[job] = config
    return configs


class _Entry(msgspec.Struct):
    job: Count
    config: dict[str, Any]


def _entry(line: bytes, where: str) -> _Entry:
    entry: _Entry = as_type(decode_json(line, where), _Entry, where)
    return entry


def read_or_note(read: Callable[[], Any], otherwise: Any, problems: list[str] | None) -> Any:
    """What ``read`` gives. A damaged file raises, or is a line of ``problems`` and reads as ``otherwise``."""
    try:
        return read()
    except BadInputError as error:
        if problems is None:
            raise
        problems.append(str(error).splitlines()[0])
        return otherwise


def read_sweep_machines(folder: Path) -> dict[str, Machine]:
    """The machines that took part, by id: from their files, or from sweep.yaml once it is complete."""
    described = read_sweep(folder).get("machines") or {}
    known = {key: as_type(value, Machine, str(folder / "sweep.yaml")) for key, value in described.items()}
    return known | read_machines(folder)


def job_records(folder: Path) -> list[Path]:
    """The files of a sweep's records, wherever ``hydra.sweep.subdir`` put them; another sweep below is not this one."""
    files, below = [], [path for path in _folders(folder) if not path.name.startswith(".")]
    for path in below:
        if (path / "point.json").exists() or (path / "point.json").is_symlink():
            files.append(path / "point.json")
        elif not (path / "sweep.yaml").exists():
            files += job_records(path)
    return files


def _folders(folder: Path) -> list[Path]:
    return (
        [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.is_symlink()]
        if folder.is_dir()
        else []
    )


def _records(folder: Path) -> list[tuple[Point, Path]]:
    """Records with their folders, the oldest first."""
    folders = [file.parent for file in job_records(folder)]
    points = [read_point_or_failure(own / "point.json") for own in folders]
    nameless = [
        point.reason_kind == UNREADABLE and own.name != str(point.job)
        for point, own in zip(points, folders, strict=True)
    ]
    pairs = zip(_apart(points, nameless), folders, strict=True)
    return sorted(pairs, key=lambda pair: pair[0].created)


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    lines = unpacked(file, LARGEST_RECORDS).splitlines()
    return ((number, line) for number, line in enumerate(lines) if line.strip())


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
    rows = [{"job": job, **row} for job in sorted(tables) for row in tables[job]]
    return _compressed(table_bytes(rows, ["job", *columns]))


def _compressed(data: bytes) -> bytes:
    return lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
