"""``python -m roofexp.diagnose FOLDER`` places and diagnoses every point of a sweep again, from its files alone.

The folder may be measured or published. Tables, page and figures are made again with the records.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from roofexp.clocks import roofs_of
from roofexp.commands import report_damage, run_command
from roofexp.config.settings import PlacingSettings, check_placing, placing_of
from roofexp.counters.join import join
from roofexp.diagnosis import placed
from roofexp.diagnosis.rules import read_rules
from roofexp.diagnosis.verdict_table import count_right, details, expectation_table, expecting, point_table
from roofexp.errors import EXIT_POINT_FAILED, BadInputError
from roofexp.records.archive import read_configs, read_sweep_points
from roofexp.records.machine import RoofSet
from roofexp.records.point import Point, unreadable
from roofexp.records.sweep_folder import read_roofs
from roofexp.text.console import open_console

THRESHOLDS = ("on_roof", "far_below", "above_roof", "near_floor")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """\
Rewrites the records and all that is made of them: points.csv, faults.csv, figures, report.html. Needs no GPU.
Without thresholds and rules the sweep is judged as it was measured. Then update MLflow: python -m roofexp.track."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of a sweep, or a published one")
    parser.add_argument("--output", type=Path, metavar="COPY", help="write into a copy of FOLDER, which stays as it is")
    parser.add_argument("--rules", metavar="FILE", help="rules in YAML; else those that the sweep was made with")
    for name in THRESHOLDS:
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, metavar="X", help=f"placing.{name}")
    parser.add_argument("--dry-run", action="store_true", help="print the verdicts and write nothing")
    parser.add_argument("--details", action="store_true", help="each verdict with its numbers and all other causes")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a verdict is not the expected one")


def run(options: argparse.Namespace) -> int:
    """The exit code: 1 where a file could not be read, with ``--strict`` also for a verdict that is not expected."""
    folder: Path = options.folder
    points = read_sweep_points(folder) if folder.is_dir() else []
    if not points:
        raise BadInputError(
            f"{folder}: no records of points; allowed: the folder of one sweep, e.g. outputs/gemm/<date_time>"
        )
    read_rules(options.rules)
    damage = unreadable(points)
    roofs, configs = read_roofs(folder), read_configs(folder, damage)
    diagnosed = [judged(point, roofs, _settings(configs.get(point.job, {}), options)) for point in points]
    if not options.dry_run:
        from roofexp.run.finish import write_judged

        write_judged(folder, options.output, diagnosed, _given(options))
    _print(diagnosed, options)
    wrong = any(point.as_expected is False for point in diagnosed)
    damaged = report_damage("diagnose", damage)
    return EXIT_POINT_FAILED if options.strict and wrong else damaged


def _settings(config: Mapping[str, Any], options: argparse.Namespace) -> PlacingSettings:
    """The thresholds that the point was placed with; those of the command line replace them."""
    from roofexp.counters.report_placing import placing_settings

    stored = placing_of(config, str(options.folder)) if "placing" in config else placing_settings()
    settings = msgspec.structs.replace(stored, **_given(options))
    check_placing(msgspec.structs.asdict(settings))
    return settings


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """Thresholds and rules of the command line."""
    return {name: getattr(options, name) for name in (*THRESHOLDS, "rules") if getattr(options, name) is not None}


def judged(point: Point, sets: list[RoofSet], settings: PlacingSettings) -> Point:
    """The point, placed and diagnosed as if it had just been measured."""
    roofs = roofs_of(point, sets)
    if point.timing is None or roofs is None:
        return point
    if point.counted is not None and point.counted.unavailable is None:
        return join(point, point.counted, roofs, settings)
    return placed(point, roofs, settings)


def _print(points: list[Point], options: argparse.Namespace) -> None:
    console = open_console()
    if options.details:
        for point in points:
            for line in details(point):
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(expectation_table(points) if expecting(points) else point_table(points))
    if expecting(points):
        console.print(count_right(points), markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(run_command("diagnose"))
