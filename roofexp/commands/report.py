"""``python -m roofexp.report FOLDER``: makes a sweep's page again, from its files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from roofexp.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, BadInputError
from roofexp.report import REPORT, write_page
from roofexp.report.contents import Contents, read_contents
from roofexp.report.figures import redraw, wanted
from roofexp.text.console import relative


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 2 for a folder that holds no sweep or an output that cannot be written."""
    options = _parser().parse_args(arguments)
    try:
        contents = read_contents(options.folder)
        if options.redraw or wanted(contents):
            _redraw(contents)
        written = write_page(contents, options.output)
    except BadInputError as error:
        print(f"roofexp.report: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except OSError as error:
        print(f"roofexp.report: {options.output or options.folder}: {error.strerror or error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    print(f"report   {relative(written)}")
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m roofexp.report",
        description="Makes a sweep's page, one HTML file that needs no network, from the sweep's files.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of a sweep, or a published one")
    parser.add_argument("--output", type=Path, metavar="FILE", help=f"where to write it; else {REPORT} in FOLDER")
    parser.add_argument("--redraw", action="store_true", help="draw the figures again first")
    return parser


def _redraw(contents: Contents) -> None:
    """A figure that cannot be drawn is a line and no reason to have no page."""
    try:
        for file in redraw(contents):
            if file.suffix == ".svg":
                print(f"figure   {relative(file)}")
    except Exception as error:  # whatever the plotting libraries raise
        print(f"roofexp.report: figures: {type(error).__name__}: {error}; the page is made without", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
