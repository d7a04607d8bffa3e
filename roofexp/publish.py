"""``python -m roofexp.publish FOLDER TARGET``: a sweep as it can be committed: small, complete, nothing private."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from roofexp.archive import is_packed, read_configs, read_sweep_points
from roofexp.errors import EXIT_BAD_INPUT, EXIT_OK, BadInputError
from roofexp.packing import pack
from roofexp.private_words import findings
from roofexp.summary import relative
from roofexp.sweep import read_sweep
from roofexp.units import engineering

SHOWN = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 2 for a folder that cannot be published as it is."""
    options = _parser().parse_args(arguments)
    try:
        publish(options.folder, options.target, options.replace, options.dirty)
    except BadInputError as error:
        print(f"roofexp.publish: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m roofexp.publish",
        description="Packs a sweep into a folder for publication: table, roofs, figures, report, and in compressed "
        "files the records, raw samples, clocks, counters and configurations of all points. What names a host, a "
        "person or an absolute path is refused.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a sweep's folder, e.g. outputs/tiles/<date_time>")
    parser.add_argument("target", type=Path, metavar="TARGET", help="e.g. outputs/reference/h200/tiles")
    parser.add_argument("--replace", action="store_true", help="replace an earlier publication in TARGET")
    parser.add_argument("--dirty", action="store_true", help="publish although the code had uncommitted changes")
    return parser


def publish(folder: Path, target: Path, replace: bool = False, dirty: bool = False) -> None:
    """Writes ``target`` whole or not at all. Raises BadInputError, naming what is in the way."""
    _check_source(folder, dirty)
    if target.exists() and not (replace and (is_packed(target) or not any(target.iterdir()))):
        cure = "give --replace" if is_packed(target) else "name a folder that is not there yet"
        raise BadInputError(f"{target} is there already; {cure}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".publish", dir=target.parent) as scratch:
        fresh = Path(scratch) / target.name
        fresh.mkdir()
        pack(folder, fresh)
        _write_report(fresh)
        _check_private(fresh)
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)
    files = [file for file in target.rglob("*") if file.is_file()]
    size = engineering(sum(file.stat().st_size for file in files), "B")
    print(f"published {relative(target)}: {len(read_sweep_points(target))} points, {len(files)} files, {size}")


def _check_source(folder: Path, dirty: bool) -> None:
    if is_packed(folder):
        raise BadInputError(f"{folder} is published already; name the folder that was measured")
    points = read_sweep_points(folder)
    if not points:
        raise BadInputError(f"{folder}: no sweep in it; name a sweep's folder, e.g. outputs/tiles/<date_time>")
    missing = {point.job for point in points} - set(read_configs(folder))
    if missing:
        raise BadInputError(f"{folder}: job {min(missing)} has no .hydra/config.yaml, so nobody could reproduce it")
    try:
        sweep = read_sweep(folder)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    if not dirty and (not sweep.get("git_commit") or sweep.get("git_dirty")):
        what = "had uncommitted changes" if sweep.get("git_commit") else "is not known by a git commit"
        raise BadInputError(f"{folder}: the code that measured it {what}; measure again, or give --dirty")


def _write_report(folder: Path) -> None:
    """Made anew: its links lead to the packed files."""
    from roofexp.report import write_report

    try:
        write_report(folder)
    except Exception as error:  # the page can be made again from the files
        print(f"report: {type(error).__name__}: {error}; published without", file=sys.stderr)


def _check_private(folder: Path) -> None:
    found = list(findings(folder))
    if found:
        more = f"\n  and in {len(found) - SHOWN} more files" if len(found) > SHOWN else ""
        lines = "".join(f"\n  {line}" for line in found[:SHOWN])
        raise BadInputError(f"not published: it names a host, a person or an absolute path:{lines}{more}")


if __name__ == "__main__":
    sys.exit(main())
