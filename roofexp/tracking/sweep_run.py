"""The parent run of a sweep, made from the files in its folder; any of them may be missing after a kill."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec

from roofexp.config.plain import NOT_MEASURED
from roofexp.errors import BadInputError
from roofexp.records.archive import PACKED_FILES, is_packed, read_sweep_points
from roofexp.records.point import Bound, Point, Status, read_point
from roofexp.records.sweep_folder import POINT_FILES, SWEEP_FILES
from roofexp.records.sweep_folder import read_sweep as read_description
from roofexp.text.console import one_line
from roofexp.text.numbers import engineering
from roofexp.tracking.client import RunStore, import_mlflow
from roofexp.tracking.point_run import end_of, per_second, record_hash
from roofexp.tracking.run import RunContent, build_content, hash_of, milliseconds, sweep_tags
from roofexp.tracking.store import StoreAddress, TrackingError, check_address, resolve_store, shown

PAGES = ("report.html", "gate.xml", "gate.md", "gate.yaml")
KEPT_FILES = (*SWEEP_FILES, *PAGES, *PACKED_FILES)
FIGURES = ("*.png", "*.svg", "*.csv")


class SweepFolder(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in a sweep's folder. ``points`` maps a job's number to its record and folder, in that order."""

    folder: Path
    sweep: dict[str, Any]
    points: dict[int, tuple[Point, Path]]
    machines: dict[str, str]  # machine_id to name

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
    records: list[tuple[Point, Path]] = []
    for file in folder.glob("*/point.json"):
        try:
            records.append((read_point(file), file.parent))
        except (ValueError, OSError):
            continue
    newest = {point.job: (point, path) for point, path in sorted(records, key=lambda pair: pair[0].created)}
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
    files = [(folder / name, "") for name in KEPT_FILES]
    files += [(file, "figures") for kind in FIGURES for file in sorted((folder / "figures").glob(kind))]
    return [(file, place) for file, place in files if file.is_file()]


def point_files(folder: Path) -> list[tuple[Path, str]]:
    """The files kept on a child run, each with its folder there."""
    files = [(folder / name, ".hydra" if name.startswith(".hydra") else "") for name in POINT_FILES]
    return [(file, place) for file, place in files if file.is_file()]


def sweep_name(sweep: Mapping[str, Any]) -> str:
    """gemm size=256,1024,4096: the sweep's name and what was asked for beside it."""
    name = str(sweep.get("name") or sweep["sweep_id"])
    asked = {key: value for key, value in _asked(sweep).items() if key.split(".")[0] not in NOT_MEASURED}
    return " ".join([name, *(f"{key}={value}" for key, value in asked.items() if value != name)])


def _asked(sweep: Mapping[str, Any]) -> dict[str, str]:
    """The overrides of the command line, without Hydra's signs for adding and removing."""
    pairs = [str(text).split("=", 1) for text in sweep.get("overrides") or []]
    return {pair[0].lstrip("+~"): pair[1] for pair in pairs if len(pair) == 2}


def sweep_status(contents: SweepFolder) -> str:
    """As stated in sweep.yaml; else KILLED for a sweep that never ended, FAILED as its exit code would be."""
    stated = str(contents.sweep.get("status") or "").upper()
    if stated in ("FINISHED", "FAILED", "KILLED"):
        return stated
    if contents.sweep.get("started") and not contents.sweep.get("finished"):
        return "KILLED"
    return "FAILED" if any(point.status == "failed" for point in contents.records) else "FINISHED"


def content_hash(contents: SweepFolder, status: str) -> str:
    """Changes with anything that the parent run shows."""
    parts = [status.encode(), json.dumps(contents.sweep, sort_keys=True, default=str).encode()]
    parts += [record_hash(point, contents.machine_of(point)).encode() for point in contents.records]
    for file, place in sweep_files(contents.folder):
        parts += [f"{place}/{file.name}".encode(), file.read_bytes()]
    return hash_of(*parts)


def opening_content(sweep: Mapping[str, Any]) -> RunContent:
    """The parent run of a sweep that has only begun."""
    start_ms = milliseconds(str(sweep.get("started")))
    return _sweep_content(sweep, "FINISHED", (start_ms, start_ms), {}, {})


def closing_content(contents: SweepFolder, status: str) -> RunContent:
    """The parent run of a sweep that has ended, from its files alone."""
    starts = [milliseconds(point.created) for point in contents.records]
    ends = [end_of(point) for point in contents.records]
    start_ms = milliseconds(str(contents.sweep.get("started")), min(starts, default=0))
    end_ms = milliseconds(str(contents.sweep.get("finished")), max([start_ms, *ends]))
    tags = {
        "mlflow.note.content": summary_text(contents),
        "roofexp.verdicts": ", ".join(f"{count} {bound}" for bound, count in _bounds(contents).items()) or None,
        "roofexp.content_hash": content_hash(contents, status),
    }
    return _sweep_content(contents.sweep, status, (start_ms, end_ms), summary_metrics(contents.records), tags)


def _sweep_content(
    sweep: Mapping[str, Any],
    status: str,
    times: tuple[int, int],
    metrics: Mapping[str, float | None],
    tags: Mapping[str, Any],
) -> RunContent:
    return build_content(
        name=sweep_name(sweep),
        status=status,
        times=times,
        params=_asked(sweep),
        metrics=metrics,
        tags={
            **sweep_tags(sweep),
            "roofexp.kind": "sweep",
            "roofexp.sweep_id": sweep["sweep_id"],
            "roofexp.command": sweep.get("command"),
            **tags,
        },
    )


def summary_metrics(points: list[Point]) -> dict[str, float | None]:
    """How the points ended, where they landed, and the best that was reached (SI)."""
    bounds = [point.placement.bound for point in points if point.placement]
    measured = [point for point in points if point.status == "ok"]
    rates = [point.flops_per_s for point in measured if point.flops_per_s is not None]
    moved = [per_second(point.traffic.bytes, point) or 0.0 for point in measured if point.traffic]
    fractions = [p.placement.fraction for p in points if p.placement and p.placement.fraction is not None]
    statuses = [point.status for point in points]
    return {
        "points/total": len(points),
        **{f"points/{status}": statuses.count(status) for status in get_args(Status)},
        "points/flagged": sum(bool(point.flags) for point in points),
        **{f"bound/{bound}": bounds.count(bound) for bound in get_args(Bound)},
        "best/flops_per_s": max(rates, default=None),
        "best/bytes_per_s": max(moved, default=None),
        "best/roof_fraction": max(fractions, default=None),
        "time/measuring_s": sum(point.measuring_s for point in points),
    }


def _bounds(contents: SweepFolder) -> dict[str, int]:
    """How many points landed where, in the order of first landing."""
    bounds = [point.placement.bound for point in contents.records if point.placement]
    return {bound: bounds.count(bound) for bound in dict.fromkeys(bounds)}


def summary_text(contents: SweepFolder) -> str:
    """The parent run's description (Markdown): where the points landed, the fastest one, and what went wrong."""
    points = contents.records
    machines = list(dict.fromkeys(contents.machines.get(p.machine_id or "", "") for p in points if p.machine_id))
    where = f" on {', '.join(filter(None, machines))}" if any(machines) else ""
    counts = ", ".join(f"{count} {bound}" for bound, count in _bounds(contents).items())
    lines = [f"{len(points)} point{'s' if len(points) != 1 else ''}{where}" + (f": {counts}" if counts else "") + "."]
    fastest = max(points, key=lambda point: point.flops_per_s or 0.0, default=None)
    if fastest and fastest.flops_per_s:
        lines.append(f"\nFastest: {fastest.label} at {engineering(fastest.flops_per_s, 'FLOP/s')}.\n")
    wrong = [point for point in points if point.status != "ok"]
    lines += [f"- {point.label} {point.status}: {point.reason or 'no reason is recorded'}" for point in wrong[:20]]
    lines += [f"- and {len(wrong) - 20} more"] if len(wrong) > 20 else []
    return "\n".join(lines)


@contextmanager
def fetched_sweep(run_id: str, uri: str | None, outputs: Path) -> Iterator[Path]:
    """The folder of the sweep of a run (its own or, for a point's run, its parent's). Files that were fetched are
    removed afterwards.

    Raises BadInputError for a run that the store does not have or that is no sweep's.
    """
    address = resolve_store("sqlite", uri, outputs)
    client, run = _find(run_id, address)
    sweep_id = run.data.tags.get("roofexp.sweep_id")
    if not sweep_id:
        raise BadInputError(f"run {run_id} in {shown(address.uri)}: not a run of roofexp (no tag roofexp.sweep_id)")
    parent = run.data.tags.get("mlflow.parentRunId", run_id)
    folder = _folder_of(sweep_id, outputs)
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="roofexp") as place:
        _download(RunStore(client, address, "", run.info.experiment_id), parent, Path(place))
        yield Path(place)


def _find(run_id: str, address: StoreAddress) -> tuple[Any, Any]:
    if address.database is not None and not address.database.is_file():
        raise BadInputError(f"run {run_id}: no MLflow store at {shown(address.uri)}; name it by --uri")
    try:
        check_address(address)
        client = import_mlflow().MlflowClient(tracking_uri=address.client_uri)
        return client, client.get_run(run_id)
    except TrackingError as error:
        raise BadInputError(f"run {run_id}: {error}") from error
    except Exception as error:  # whatever a store raises
        raise BadInputError(f"run {run_id}: not in {shown(address.uri)} ({one_line(error)})") from error


def _folder_of(sweep_id: str, outputs: Path) -> Path | None:
    """The sweep that the run mirrors, below ``outputs``."""
    for file in outputs.glob("*/*/sweep.yaml"):
        try:
            if str(read_description(file.parent).get("sweep_id")) == sweep_id:
                return file.parent
        except ValueError:
            continue
    return None


def _download(runs: RunStore, parent: str, place: Path) -> None:
    """The files of the sweep, and those of each point in a folder of its job's number."""
    try:
        _files(runs.client, parent, place, ("sweep.yaml", "roofs.json"))
        for child in runs.search({"mlflow.parentRunId": parent}):
            job = child.data.tags.get("roofexp.job", "")
            own = place / (job if job.isdecimal() else child.info.run_id)
            own.mkdir(exist_ok=True)
            _files(runs.client, child.info.run_id, own, ("point.json", "samples.csv"))
    except Exception as error:  # whatever an artifact store raises
        raise BadInputError(f"run {parent}: its files cannot be fetched ({one_line(error)})") from error


def _files(client: Any, run_id: str, place: Path, names: tuple[str, ...]) -> None:
    kept = {artifact.path for artifact in client.list_artifacts(run_id)}
    for name in names:
        if name in kept:
            client.download_artifacts(run_id, name, str(place))
