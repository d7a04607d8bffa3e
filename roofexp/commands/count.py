"""``python -m roofexp.count FOLDER``: hardware counters for a sweep that was timed already."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from roofexp.commands import run_command
from roofexp.config.paths import conf_folder
from roofexp.counters.counting import CountRequest
from roofexp.errors import EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.ncu.catalogue import LEVELS
from roofexp.records.archive import is_packed, read_sweep_points

INTERRUPTED = "interrupted; points keep the traffic that they had"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Run it on the machine that measured the sweep. Then update MLflow: python -m roofexp.track FOLDER."
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of a sweep")
    parser.add_argument("--level", choices=LEVELS, help="what to count; else as the sweep was configured, else basic")
    parser.add_argument("--metrics", nargs="+", metavar="NAME", help="ncu's own names instead of those of a level")
    parser.add_argument("--ncu", metavar="PATH", help="Nsight Compute, if not the one on the PATH")
    parser.add_argument("--config-dir", type=Path, help="your folder, where kernels are not the program's own")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for one point")
    parser.add_argument("--keep-reports", action="store_true", help="keep .ncu-rep files in the folder")
    parser.add_argument("--missing", action="store_true", help="only points that have no counters yet")


def run(options: argparse.Namespace) -> int:
    """The exit code: 1 where a point that was to be counted has no counters."""
    from roofexp.counters.counting import count_sweep
    from roofexp.ncu import find_ncu
    from roofexp.records.points_table import write_points_table
    from roofexp.run.finish import draw
    from roofexp.run.summary import counting_lines

    folder: Path = options.folder
    if is_packed(folder):
        raise BadInputError(f"{folder} is published; allowed: the folder that was measured")
    if not read_sweep_points(folder):
        raise BadInputError(f"{folder}: no points; allowed: the folder of one sweep, e.g. outputs/gemm/<date_time>")
    find_ncu(options.ncu)
    request = CountRequest(
        override=_override(options),
        default="basic",
        again=not options.missing,
        config_folders=[*filter(None, [options.config_dir]), conf_folder()],
    )
    number = count_sweep(folder, request, progress=_progress)
    points = read_sweep_points(folder)
    if number == 0:
        print("nothing to count: no point that a GPU measured" + (" is without counters" if options.missing else ""))
        return EXIT_OK
    write_points_table(folder, points)
    draw(folder, points)
    for line in counting_lines(points):
        print(line)
    return EXIT_POINT_FAILED if any(point.counted and point.counted.unavailable for point in points) else EXIT_OK


def _override(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "level": options.level,
        "metrics": options.metrics,
        "ncu": options.ncu,
        "timeout_s": options.timeout,
        "keep_reports": options.keep_reports or None,
    }
    override = {key: value for key, value in given.items() if value is not None}
    return override | ({"metrics": None} if options.level and not options.metrics else {})


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{line}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(run_command("count"))
