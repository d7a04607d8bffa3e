"""``python -m roofexp.track FOLDER`` mirrors a finished, resumed or killed sweep into MLflow, from its files."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from roofexp.commands import run_command
from roofexp.errors import EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.text.console import one_line
from roofexp.tracking import Mirrored, Tracker, open_store
from roofexp.tracking.store import TrackingError
from roofexp.tracking.sweep_run import read_sweep, sweep_name

INTERRUPTED = "interrupted; run the same command again to complete what is missing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Mirroring twice changes nothing."
    parser.add_argument("folder", type=Path, nargs="+", metavar="FOLDER", help="the folder of a sweep")
    parser.add_argument(
        "--uri",
        help="the store, e.g. sqlite:////data/mlflow.db or http://host:5000; "
        "else MLFLOW_TRACKING_URI, else mlflow.db in the outputs folder that holds the sweep",
    )
    parser.add_argument("--experiment", help="the MLflow experiment; else the one that the sweep names, else roofexp")


def run(options: argparse.Namespace) -> int:
    """The exit code: 1 for a store that is down. A store that cannot be used as asked is bad input."""
    try:
        for folder in options.folder:
            _track(folder, options.uri, options.experiment)
    except TrackingError as error:
        if isinstance(error, BadInputError):
            raise
        print(f"roofexp.track: {error}", file=sys.stderr)
        return EXIT_POINT_FAILED
    return EXIT_OK


def _track(folder: Path, uri: str | None, experiment: str | None) -> None:
    stored = read_sweep(folder)
    name = experiment or str(stored.sweep.get("experiment") or "roofexp")
    tracker = open_store("sqlite", uri, name, outputs_folder(folder))
    done = _mirror(folder, tracker)
    counts = f"{done.new} new, {done.renewed} renewed, {done.unchanged} unchanged"
    points = f"{len(stored.points)} points in MLflow ({counts})"
    print(f"{sweep_name(stored.sweep)}: {points}, experiment {name}, {tracker.uri}")
    print(f"to look at them: {tracker.ui_command}")
    for address in tracker.pages:
        print(f"  {address}")


def _mirror(folder: Path, tracker: Tracker) -> Mirrored:
    try:
        return tracker.mirror(folder, on_point=_progress if sys.stderr.isatty() else None)
    except BaseException as error:
        with contextlib.suppress(Exception):
            tracker.close_leftovers()
        if isinstance(error, BadInputError) or not isinstance(error, Exception):
            raise
        raise TrackingError(
            f"{tracker.uri}: {one_line(error)}; run the same command again to complete what is missing"
        ) from error


def outputs_folder(folder: Path) -> Path:
    """The folder whose mlflow.db belongs to a sweep: the nearest parent that has one, else the nearest parent called
    outputs, else two levels up, which is where sweeps are written."""
    above = folder.resolve().parents
    for candidate in above:
        if (candidate / "mlflow.db").is_file():
            return candidate
    return next((candidate for candidate in above if candidate.name == "outputs"), above[min(1, len(above) - 1)])


def _progress(done: int, total: int) -> None:
    print(f"\r{done}/{total} points", end="\n" if done == total else "", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(run_command("track"))
