"""The folder of one sweep: what it says about itself, and the table made from its points. Files are the truth."""

from __future__ import annotations

import bisect
import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from roofexp import __version__
from roofexp.config.input_files import as_type, read_json, shown
from roofexp.config.paths import PACKAGE
from roofexp.config.yaml_file import read_yaml, yaml_text
from roofexp.errors import BadInputError, DamagedFileError
from roofexp.records.files import write_atomically, write_json
from roofexp.records.machine import Machine, RoofSet
from roofexp.text.addresses import all_without_secrets

LIBRARIES = ("hydra-core", "omegaconf", "numpy", "numba", "mlflow", "pandas", "cupy-cuda12x", "cupy-cuda13x", "torch")
SWEEP_FILES = ("sweep.yaml", "points.csv", "roofs.json")

POINT_FILES = (  # hydra.yaml is left out: it says nothing about the point
    *("point.json", "samples.csv", "clocks.csv", "counters.csv", "error.txt"),
    *(".hydra/config.yaml", ".hydra/overrides.yaml"),
)

STOP_MARK = ".stopped"  # fail_fast: no further point of this sweep is measured
JUDGED_WITH = "placing"  # in sweep.yaml: thresholds other than those of the configurations, if judged anew
NO_COUNTERS_MARK = ".no_counters"  # why there are none: jobs that count themselves do not ask again


def describe_sweep(name: str, overrides: list[str], experiment: str) -> dict[str, Any]:
    """What ``sweep.yaml`` says: everything needed to run it again, nothing about whose machine it was."""
    commit, dirty = git_state()
    return {
        "sweep_id": uuid.uuid4().hex[:12],
        "name": name,
        "command": " ".join(["python -m roofexp", *sys.argv[1:]]),
        "overrides": overrides,
        "experiment": experiment,
        "started": now(),
        "git_commit": commit,
        "git_dirty": dirty,
        "versions": versions(),
    }


def resumed_sweep(sweep: dict[str, Any]) -> dict[str, Any]:
    """The description of a sweep that goes on: ``commits`` lists every state of the code that measured, each with the
    time from which it did. ``git_dirty`` and ``git_commit`` are those of the worst."""
    first = {"git_commit": sweep.get("git_commit"), "git_dirty": sweep.get("git_dirty"), "from": sweep.get("started")}
    commits = list(sweep.get("commits") or [first])
    commit, dirty = git_state()
    if (commits[-1]["git_commit"], commits[-1]["git_dirty"]) == (commit, dirty):
        return sweep
    return _of_commits(sweep, [*commits, {"git_commit": commit, "git_dirty": dirty, "from": now()}])


def commit_names(sweep: Mapping[str, Any]) -> list[str]:
    """Every commit that measured points, with "uncommitted changes" where there were some; empty where none is
    recorded."""
    states = sweep.get("commits") or [sweep]
    names = [
        f"{state.get('git_commit') or 'unknown'}{' with uncommitted changes' if state.get('git_dirty') else ''}"
        for state in states
    ]
    return list(dict.fromkeys(names)) if names != ["unknown"] else []


def without_idle_commits(sweep: dict[str, Any], created: Iterable[str]) -> dict[str, Any]:
    """The description without the states of the code that measured none of the points (``created``: their times)."""
    commits = sweep.get("commits") or []
    starts = [_moment(entry["from"]) for entry in commits]
    used = {max(bisect.bisect_right(starts, _moment(time)) - 1, 0) for time in created}
    kept = [entry for number, entry in enumerate(commits) if number in used]
    return _of_commits(sweep, kept) if 0 < len(kept) < len(commits) else sweep


def _moment(stamp: str | None) -> float:
    """Seconds since 1970 of an ISO 8601 time; 0 of any other text."""
    try:
        return datetime.datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        return 0.0


def _of_commits(sweep: dict[str, Any], commits: list[dict[str, Any]]) -> dict[str, Any]:
    worst = max(commits, key=lambda entry: (not entry["git_commit"], bool(entry["git_dirty"])))
    dirty = True if any(entry["git_dirty"] for entry in commits) else worst["git_dirty"]
    return sweep | {"git_commit": worst["git_commit"], "git_dirty": dirty, "commits": commits}


def write_sweep(folder: Path, sweep: dict[str, Any]) -> None:
    write_atomically(folder / "sweep.yaml", yaml_text(all_without_secrets(sweep)).encode())


class _Commit(TypedDict, total=False):
    git_commit: str | None
    git_dirty: bool | None


class _Described(_Commit, total=False):
    """What the program reads of sweep.yaml; it may hold more."""

    sweep_id: str
    name: str
    command: str
    overrides: list[str]
    arguments: list[str]
    experiment: str
    started: str
    finished: str
    status: str
    plain_run: bool
    versions: dict[str, str]
    commits: list[_Commit]
    machines: dict[str, Machine]
    placing: dict[str, float | str | None]


def read_sweep(folder: Path) -> dict[str, Any]:
    """What sweep.yaml holds; empty where there is none. Raises DamagedFileError for one that is no sweep's description,
    or holds something of another type."""
    file = folder / "sweep.yaml"
    if not file.exists():
        return {}
    try:
        sweep = all_without_secrets(shown(read_yaml(file), str(file)))
    except BadInputError as error:
        raise DamagedFileError(str(error)) from error
    if not isinstance(sweep, dict):
        raise DamagedFileError(f"{file} is not a sweep's description")
    stated = {key: value for key, value in sweep.items() if value is not None}
    as_type(stated, _Described, str(file))
    return stated


def write_machine(folder: Path, machine: Machine) -> None:
    write_json(folder / f"machine-{machine.machine_id}.json", machine)


def read_machines(folder: Path) -> dict[str, Machine]:
    """The machines that took part, by id. Raises DamagedFileError."""
    machines: list[Machine] = [read_json(file, Machine) for file in sorted(folder.glob("machine-*.json"))]
    return {machine.machine_id: machine for machine in machines}


def write_roofs(folder: Path, roofs: RoofSet) -> None:
    """One file per machine and clock mode while jobs run side by side; ``collect_roofs`` makes roofs.json of them."""
    write_json(folder / f"roofs-{roofs.machine.machine_id}_{roofs.clock_mode}.json", roofs)


def read_roofs(folder: Path) -> list[RoofSet]:
    """The roofs that the points of this sweep are placed under. Raises DamagedFileError."""
    sets: list[RoofSet] = [read_json(file, RoofSet) for file in sorted(folder.glob("roofs-*.json"))]
    if not sets and (folder / "roofs.json").exists():
        sets = read_json(folder / "roofs.json", list[RoofSet])
    return sets


def git_state() -> tuple[str | None, bool | None]:
    """Commit and dirtiness of the program's source tree, or of the working folder for an installed program."""
    stated = os.environ.get("ROOFEXP_GIT_COMMIT")  # where the tree was copied without its history
    if stated:
        return stated.removesuffix("-dirty"), stated.endswith("-dirty")
    for folder in (PACKAGE.parent, Path.cwd()):
        if (folder / ".git").exists():
            commit = _git(folder, "rev-parse", "HEAD")
            changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
            return commit, None if changes is None else bool(changes)
    return None, None


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        words = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments]  # a program that a folder names
        done = subprocess.run(words, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def versions() -> dict[str, str]:
    found = {"roofexp": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
