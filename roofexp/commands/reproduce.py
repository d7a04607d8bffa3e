"""``python -m roofexp.reproduce FOLDER`` measures the points of a sweep again here and compares them one by one.

Every point runs by its stored configuration, even if the file of the experiment has changed since.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from roofexp.commands import run_command
from roofexp.compare.agreement import PlacedSweep, Tolerance, agreement, describe, print_agreement, table_csv
from roofexp.config.paths import STAMP, is_inner
from roofexp.config.settings import placing_of
from roofexp.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.records.archive import read_configs, read_sweep_machines, read_sweep_points
from roofexp.records.files import write_atomically
from roofexp.records.point import Point
from roofexp.records.sweep_folder import read_roofs, read_sweep
from roofexp.text.console import relative

TABLE = "reproduced.csv"


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """The sweep that is measured again, and which of its jobs."""

    folder: Path
    sweep: dict[str, Any]
    points: dict[int, Point]
    configs: dict[int, dict[str, Any]]
    jobs: list[int]

    @property
    def measured(self) -> list[int]:
        """The chosen jobs that had a result."""
        return [job for job in self.jobs if self.points[job].status == "ok"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """\
Every point is measured by its stored configuration. Fractions of the roof are compared, which another machine can
share; times are shown where the machine is the same.

exit code: 0 it agrees; 1 a point differs or failed; 2 the input cannot be used"""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a sweep's folder, as measured or as published")
    parser.add_argument("--only", metavar="REGEX", help="points whose name or overrides match, e.g. 'gemm 4096'")
    parser.add_argument("--tolerance", type=_share, default=0.05, help="of each point, relative (0.05)")
    parser.add_argument("--median", type=_share, default=0.02, help="of the median of all differences (0.02)")
    parser.add_argument("--device", help="another device than the one stored: cpu, cpu:4, cuda:1")
    parser.add_argument("--config-dir", type=Path, help="your folder, where kernels are not the program's own")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where results and roofs go (outputs)")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="continue an interrupted reproduction")
    parser.add_argument("--measured", type=Path, metavar="FOLDER", help="measure nothing: compare with this sweep")


def run(options: argparse.Namespace) -> int:
    """The exit code: 0 where the sweep agrees, 1 where it does not."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: what was measured stays
    original = read_original(options.folder, options.only)
    folder, interrupted = options.measured, False
    if folder is None:
        folder = options.into or new_folder(original, options.outputs)
        interrupted = not _measure(original, folder, options)
    agrees = _report(original, folder, Tolerance(point=options.tolerance, median=options.median))
    if interrupted:
        print(f"interrupted; continue with the same command and --into {relative(folder)}", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_OK if agrees else EXIT_POINT_FAILED


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text}: a share, from 0 to below 1")
    return value


def read_original(folder: Path, only: str | None) -> Original:
    """Raises BadInputError for a folder that holds no sweep, or one without its configurations."""
    points = {point.job: point for point in read_sweep_points(folder)}
    sweep = read_sweep(folder)
    if not points:
        what = "no point records in it" if folder.is_dir() else "no such folder"
        raise BadInputError(f"{folder}: {what}; name a sweep's folder, e.g. outputs/reference/h200/size_sweep")
    configs = read_configs(folder)
    jobs = _chosen(points, only)
    missing = [job for job in jobs if points[job].status == "ok" and job not in configs]
    if missing:
        named = describe(points[missing[0]])
        raise BadInputError(f"{folder}: no stored configuration for {len(missing)} points, e.g. {named}")
    return Original(folder=folder, sweep=sweep, points=points, configs=configs, jobs=jobs)


def _chosen(points: dict[int, Point], only: str | None) -> list[int]:
    if only is None:
        return list(points)
    try:
        pattern = re.compile(only)
    except re.error as error:
        raise BadInputError(f"--only {only!r} is not a regular expression ({error})") from error
    jobs = [job for job, p in points.items() if pattern.search(f"{describe(p)} {' '.join(p.overrides)}")]
    if not jobs:
        names = ", ".join(dict.fromkeys(describe(point) for point in list(points.values())[:12]))
        raise BadInputError(f"--only {only!r} matches no point; there are: {names}")
    return jobs


def new_folder(original: Original, outputs: Path) -> Path:
    """outputs/<the sweep's name>/<now>, as any sweep."""
    name = str(original.sweep.get("name") or original.folder.name)
    if not is_inner(name):
        raise BadInputError(f"{original.folder / 'sweep.yaml'}: name: {name!r} leads out of {outputs}; give --into")
    return outputs / name / f"{datetime.datetime.now():{STAMP}}"


def _measure(original: Original, folder: Path, options: argparse.Namespace) -> bool:
    """False where it was interrupted."""
    from roofexp.run.resume import rerun

    described = {
        "name": str(original.sweep.get("name") or original.folder.name),
        "command": shlex.join(["python", "-m", "roofexp.reproduce", *options.words]),
        "reproduces": original.sweep.get("sweep_id"),
    }
    configs = {job: original.configs[job] for job in original.measured}
    if options.device:
        configs = {job: {**config, "device": options.device} for job, config in configs.items()}
    overrides = {job: original.points[job].overrides for job in configs}
    return rerun(configs, overrides, folder.resolve(), options.outputs.resolve(), described, options.config_dir)


def _report(original: Original, folder: Path, tolerance: Tolerance) -> bool:
    """Prints and writes the comparison. True if the sweep was reproduced."""
    sides = (read_side(original.folder), read_side(folder))
    result = agreement(*sides, original.jobs, tolerance)
    write_atomically(folder / TABLE, table_csv(result.rows))
    print_agreement(result, sides, (original.sweep, read_sweep(folder)))
    print(f"table    {relative(folder / TABLE)}")
    return result.holds


def read_side(folder: Path) -> PlacedSweep:
    """A sweep as it is compared. Raises BadInputError where it holds no points."""
    points = {point.job: point for point in read_sweep_points(folder)}
    if not points:
        raise BadInputError(f"{folder}: no point records in it")
    config = next(iter(read_configs(folder).values()), None)
    if config is None:
        raise BadInputError(f"{folder}: no stored configuration in it")
    return PlacedSweep(
        points=points,
        roofs=read_roofs(folder),
        machines=read_sweep_machines(folder),
        placing=placing_of(config, str(folder)),
    )


if __name__ == "__main__":
    sys.exit(run_command("reproduce"))
