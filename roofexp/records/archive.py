"""What Hydra stored of a job beside its record: enough to build its kernel again."""

from __future__ import annotations

import csv
import io
import lzma
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofexp.config.plain import plain
from roofexp.config.yaml_file import read_yaml
from roofexp.errors import BadInputError
from roofexp.records.files import table_bytes
from roofexp.records.machine import Machine
from roofexp.records.point import Point, decode_point, read_point_or_failure
from roofexp.records.sweep_folder import read_machines, read_sweep, write_sweep


def stored_config(folder: Path) -> dict[str, Any]:
    """The configuration of the job in ``folder``, all interpolations resolved. Raises BadInputError."""
    from omegaconf import OmegaConf

    return plain(OmegaConf.create(read_yaml(folder / ".hydra/config.yaml")))


def stored_config_folders(folder: Path) -> list[Path]:
    """Where that configuration was composed from, the user's folders first; empty where it is not known."""
    try:
        runtime = read_yaml(folder / ".hydra/hydra.yaml")["hydra"]["runtime"]
        sources = [source for source in runtime["config_sources"] if source["schema"] == "file"]
    except (BadInputError, KeyError, TypeError):
        return []
    return [Path(source["path"]) for source in sorted(sources, key=lambda source: bool(source["provider"] == "main"))]


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
    return {point.job: own for point, own in _records(folder)}


def read_sweep_points(folder: Path) -> list[Point]:
    """All readable points of a sweep in job order. Raises BadInputError for a packed file that cannot be read."""
    if not is_packed(folder):
        return sorted({point.job: point for point, _ in _records(folder)}.values(), key=lambda point: point.job)
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


def job_records(folder: Path) -> list[Path]:
    """The files of a sweep's records, wherever ``hydra.sweep.subdir`` put them; another sweep below is not this one."""
    files, below = [], [path for path in _folders(folder) if not path.name.startswith(".")]
    for path in below:
        if (path / "point.json").exists():
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
    pairs = [(read_point_or_failure(file), file.parent) for file in job_records(folder)]
    return sorted(pairs, key=lambda pair: pair[0].created)


def _lines(file: Path) -> Iterator[bytes]:
    return (line for line in _unpacked(file).splitlines() if line.strip())


def _unpacked(file: Path) -> bytes:
    try:
        return lzma.decompress(file.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise BadInputError(f"{file}: cannot be read ({error})") from error


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
