"""``python -m roofexp.report FOLDER`` writes the page of a sweep again, from its files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from roofexp.commands import report_damage
from roofexp.text.console import one_line, relative

if TYPE_CHECKING:
    from roofexp.report.contents import Contents


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of a sweep, or a published one")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to write it; else report.html in FOLDER")
    parser.add_argument("--redraw", action="store_true", help="draw the figures again first")


def run(options: argparse.Namespace) -> int:
    """The exit code: 1 where a file could not be read."""
    from roofexp.report import write_page
    from roofexp.report.contents import read_contents
    from roofexp.report.figures import lacks_figures

    contents = read_contents(options.folder)
    if options.redraw or lacks_figures(contents):
        _redraw(contents)
    print(f"report   {relative(write_page(contents, options.output))}")
    return report_damage("report", contents.damage)


def _redraw(contents: Contents) -> None:
    """A figure that cannot be drawn costs one line; the page is made all the same."""
    from roofexp.report.figures import redraw

    try:
        for file in redraw(contents):
            if file.suffix == ".svg":
                print(f"figure   {relative(file)}")
    except Exception as error:  # whatever the plotting libraries raise
        print(f"roofexp.report: figures: {one_line(error)}; the page is made without", file=sys.stderr)
