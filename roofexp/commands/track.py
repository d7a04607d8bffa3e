"""``python -m roofexp.track FOLDER``: mirrors a finished, resumed or killed sweep into MLflow, from its files."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from roofexp.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.tracking import Mirrored, Tracker, open_store
from roofexp.tracking.client import one_line
from roofexp.tracking.store import TrackingError
from roofexp.tracking.sweep_run import read_sweep, sweep_name


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 2 for a folder or store that cannot be used as asked, 1 for a store that is down."""
    options = _parser().parse_args(arguments)
    try:
        for folder in options.folder:
            _track(folder, options.uri, options.experiment)
    except BadInputError as error:
        print(f"roofexp.track: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except TrackingError as error:
        print(f"roofexp.track: {error}", file=sys.stderr)
        return EXIT_POINT_FAILED
    except KeyboardInterrupt:
        print("roofexp.track: interrupted; the same command completes what is missing", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m roofexp.track",
        description="Mirrors sweeps into MLflow from their files. Mirroring twice changes nothing.",
    )
    parser.add_argument("folder", type=Path, nargs="+", metavar="FOLDER", help="the folder of a sweep")
    parser.add_argument(
        "--uri",
        help="the store, e.g. sqlite:////data/mlflow.db or http://host:5000; "
        "else MLFLOW_TRACKING_URI, else mlflow.db in the outputs folder that holds the sweep",
    )
    parser.add_argument("--experiment", help="the MLflow experiment; else the one that the sweep names, else roofexp")
    return parser


def _track(folder: Path, uri: str | None, experiment: str | None) -> None:
    found = read_sweep(folder)
    name = experiment or str(found.sweep.get("experiment") or "roofexp")
    tracker = open_store("sqlite", uri, name, outputs_folder(folder))
    done = _mirror(folder, tracker)
    counts = f"{done.new} new, {done.renewed} renewed, {done.unchanged} unchanged"
    print(
        f"{sweep_name(found.sweep)}: {len(found.points)} points in MLflow ({counts}), experiment {name}, {tracker.uri}"
    )
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
        raise TrackingError(f"{tracker.uri}: {one_line(error)}; the same command completes what is missing") from error


def outputs_folder(folder: Path) -> Path:
    """The folder whose mlflow.db belongs to a sweep: the nearest above that has one, else the nearest called
    outputs, else two above, where sweeps are laid down."""
    above = folder.resolve().parents
    for candidate in above:
        if (candidate / "mlflow.db").is_file():
            return candidate
    return next((candidate for candidate in above if candidate.name == "outputs"), above[min(1, len(above) - 1)])


def _progress(done: int, total: int) -> None:
    print(f"\r{done}/{total} points", end="\n" if done == total else "", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
