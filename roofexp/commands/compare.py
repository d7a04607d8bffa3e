"""``python -m roofexp.compare A B``: what changed from one sweep to another, and whether it is more than noise."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roofexp.commands import report_damage
from roofexp.compare.comparison import Comparison, compare, csv_bytes, json_bytes, write
from roofexp.compare.difference import Difference, Thresholds
from roofexp.compare.matching import ACROSS, GUARDED, Side, read_side
from roofexp.compare.table import show
from roofexp.errors import EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.records.point import unreadable
from roofexp.text.console import one_line, relative

if TYPE_CHECKING:
    from roofexp.config.schema import FiguresConfig

RUN_ID = re.compile(r"[0-9a-f]{32}")

EPILOG = """\
Points are matched by what was measured: kernel, size, parameters, precision, clock mode, cache state, fill, machine.
A change is more than two runs of the same thing differ by (--floor) and more than the samples' own noise explains,
autocorrelation and drift included; over all points the chance of one false change stays below --level. The floor is
assumed unless the same thing was measured more than once: in one sweep (seed=1,2,3 -m), or in further ones (--repeats).
Points bound by the compute units are compared in cycles too: a change of clock is no change of code.

  python -m roofexp.compare outputs/gemm/MONDAY outputs/gemm/TUESDAY
  python -m roofexp.compare MONDAY TUESDAY --repeats MONDAY_AGAIN         the floor measured
  python -m roofexp.compare SWEEP SWEEP --across kernel                   one kernel against others, same sizes
  python -m roofexp.compare H100 H200 --across machine
  python -m roofexp.compare MONDAY TUESDAY --fail-on-slower 3%            exit code 1 for CI; rules: roofexp.gate"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("a", metavar="A", help="the sweep to compare with: its folder, or the MLflow id of its run")
    parser.add_argument("b", metavar="B", help="the sweep that may have changed")
    parser.add_argument(
        "--across",
        metavar="NAMES",
        default="",
        help=f"compare although these differ (refused otherwise: {', '.join(GUARDED)}); allowed: {', '.join(ACROSS)}",
    )
    parser.add_argument(
        "--floor", type=share, default=0.01, metavar="SHARE", help="two runs of one thing differ by so much (1%%)"
    )
    parser.add_argument(
        "--level", type=share, default=0.01, metavar="SHARE", help="chance of one false change among all points (1%%)"
    )
    parser.add_argument(
        "--repeats",
        nargs="+",
        default=[],
        metavar="SWEEP",
        help="sweeps of the same thing as A: they measure the floor",
    )
    parser.add_argument("--all", action="store_true", help="a row for unchanged points too")
    parser.add_argument("--json", metavar="FILE", help="everything, as JSON; - for the output instead of the table")
    parser.add_argument("--csv", metavar="FILE", help="one row per pair; - for the output instead of the table")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="for figure and tables; else comparison_A in B")
    parser.add_argument("--no-files", action="store_true", help="write neither figure nor tables")
    parser.add_argument("--fail-on-slower", type=share, metavar="SHARE", help="exit code 1 for a slowdown beyond it")
    parser.add_argument("--uri", help="the MLflow store of run ids; else MLFLOW_TRACKING_URI, else outputs/mlflow.db")


def share(text: str) -> float:
    """``3%``, ``3 %`` or ``0.03``."""
    number = text.strip()
    try:
        value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; allowed: 3% or 0.03")
    return value


def across_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in ACROSS:
            raise BadInputError(f"--across {name}: no such property; allowed: {', '.join(ACROSS)}")
    return names


@contextlib.contextmanager
def opened(sides: Sequence[str], uri: str | None) -> Iterator[list[Side]]:
    """Folders, or MLflow runs whose files are fetched for as long as this lasts where their folder is gone."""
    with contextlib.ExitStack() as stack:
        yield [_open_side(text, uri, stack) for text in sides]


def _open_side(text: str, uri: str | None, stack: contextlib.ExitStack) -> Side:
    if not Path(text).exists() and RUN_ID.fullmatch(text):
        from roofexp.tracking.sweep_run import fetched_sweep

        folder = stack.enter_context(fetched_sweep(text, uri, Path("outputs")))
        return read_side(folder, None if folder.is_relative_to(Path.cwd()) else f"run {text[:8]}")
    return read_side(Path(text))


def run(options: argparse.Namespace) -> int:
    """The exit code: 1 for a slowdown that ``--fail-on-slower`` forbids, and where a file could not be read."""
    across = across_names(options.across)
    settings = Thresholds(floor=options.floor, level=options.level)
    with opened([options.a, options.b, *options.repeats], options.uri) as (a, b, *repeats):
        comparison = compare(a, b, settings, across, repeats)
        if "-" in (options.json, options.csv):
            write("-", json_bytes(comparison) if options.json == "-" else csv_bytes(comparison))
        else:
            show(comparison, options.all)
        _write_files(comparison, a, b, options)
    damage = [line for side in (a, b, *repeats) for line in (*unreadable(side.points), *side.problems)]
    if report_damage("compare", list(dict.fromkeys(damage))):
        return EXIT_POINT_FAILED
    return EXIT_POINT_FAILED if too_slow(comparison, options.fail_on_slower) else EXIT_OK


def too_slow(comparison: Comparison, most: float | None) -> list[Difference]:
    """Real slowdowns (in time, or hidden in cycles) of more than ``most``."""
    if most is None:
        return []
    return [
        difference
        for difference in comparison.changed
        if (difference.verdict == "slower" and difference.slowdown > most)
        or (difference.verdict == "slower in cycles" and (difference.cycles_ratio or 1.0) - 1 > most)
    ]


def _write_files(comparison: Comparison, a: Side, b: Side, options: argparse.Namespace) -> None:
    for file, data in ((options.json, json_bytes), (options.csv, csv_bytes)):
        if file and file != "-":
            write(file, data(comparison))
    if options.no_files:
        return
    folder = options.output or _default_folder(comparison, b)
    write(str(folder / "comparison.json"), json_bytes(comparison))
    write(str(folder / "comparison.csv"), csv_bytes(comparison))
    out = sys.stderr if "-" in (options.json, options.csv) else sys.stdout
    try:
        from roofexp.figures.kinds.comparison import draw_comparison

        for drawing, stem in draw_comparison(comparison, a, b, figure_settings(b)):
            drawing.save(folder / stem)
            print(f"figure   {relative((folder / stem).with_suffix('.png'))}", file=out)
    except Exception as error:  # whatever the plotting libraries raise: the tables are written
        print(f"figure: {one_line(error)}", file=sys.stderr)
    print(f"tables   {relative(folder)}", file=out)


def _default_folder(comparison: Comparison, b: Side) -> Path:
    """In B's folder; in the working folder where that was only fetched, or is a published one."""
    name = re.sub(r"[^\w.+-]+", "_", f"comparison_{comparison.a}")
    from roofexp.records.archive import is_packed

    if b.name.startswith("run ") or is_packed(b.folder):
        return Path(f"{name}_{re.sub(r'[^A-Za-z0-9_.+-]+', '_', b.name)}")
    return b.folder / name


def figure_settings(side: Side) -> FiguresConfig:
    """As the sweep drew its own figures, else those of the screen."""
    from roofexp.config.schema import FiguresConfig, FigureStyle
    from roofexp.run.finish import figure_settings as of_configuration
    from roofexp.run.finish import stored_configuration

    stored = stored_configuration(side.folder)
    if stored is not None:
        return of_configuration(stored)
    return FiguresConfig(style=FigureStyle.screen, width_mm=240, font_pt=10, labels=12)
