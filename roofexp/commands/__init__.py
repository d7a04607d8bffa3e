"""The commands of the program: their names, how they are started, and what their ends mean as exit codes.

``python -m roofexp.NAME``, ``python -m roofexp NAME`` and ``roofexp NAME`` start the module of that name. It has
``add_arguments(parser)``, ``run(options) -> int`` and, where an interruption needs a word, ``INTERRUPTED``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from roofexp.config.paths import ensure_home
from roofexp.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.text.console import drop_output, explain_disk, keep_printing, prepare_output, printable

COMMANDS = {
    "compare": "Compares two sweeps point by point.",
    "count": "Counts the points of a measured sweep under Nsight Compute and places them again.",
    "diagnose": "Places and diagnoses the points of a sweep again, with other thresholds or rules.",
    "doctor": "Reports what this machine can measure and how to fix the rest.",
    "gate": "Judges a sweep by rules; the exit code is 1 where a point breaks one.",
    "place": "Places the kernels of an Nsight Compute report on the roofline.",
    "publish": "Packs a sweep into a folder for publication.",
    "report": "Writes the page of a sweep: one HTML file that needs no network.",
    "reproduce": "Measures the points of a sweep again here and compares the fractions of the roof.",
    "roofs": "Measures the roofs of this machine that are not stored yet, and prints all.",
    "track": "Mirrors sweeps into MLflow from their files.",
}

MEASURING = ("count", "reproduce", "roofs")  # what they print is the least that they make

MOST_LINES = 20
LONGEST = 1000  # characters of a message


def main() -> None:
    """``python -m roofexp`` and the console script: a command where the first word names one, else a measurement."""
    prepare_output()
    ensure_home()
    arguments = sys.argv[1:]
    if arguments and arguments[0] in COMMANDS:
        sys.exit(run_command(arguments[0], arguments[1:]))
    if "--version" in arguments:
        from roofexp import __version__

        print(f"roofexp {__version__}")
        sys.exit(EXIT_OK)
    from roofexp.commands.run import run

    keep_printing()
    sys.exit(_until_reader_leaves(lambda: run(arguments)))


def run_command(name: str, arguments: Sequence[str] | None = None) -> int:
    """The exit code: 2 for an input that cannot be used, 130 for an interruption, else what the command returns."""
    prepare_output()
    ensure_home()
    if name in MEASURING:
        keep_printing()
    command = importlib.import_module(f"roofexp.commands.{name}")
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog=f"python -m roofexp.{name}",
        description=COMMANDS[name],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    options = parser.parse_args(words, argparse.Namespace(words=words))
    from roofexp.config.input_files import refuse_links_out

    try:
        for folder in _folders(options):
            refuse_links_out(folder)
        return _until_reader_leaves(lambda: command.run(options))
    except BadInputError as error:
        return _end(name, str(error), EXIT_BAD_INPUT)
    except OSError as error:
        file = getattr(options, "output", None) or getattr(options, "folder", None) or "outputs"
        return _end(name, explain_disk(error, str(file)), EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        return _end(name, getattr(command, "INTERRUPTED", "interrupted"), EXIT_INTERRUPTED)


def report_damage(name: str, damage: Sequence[str]) -> int:
    """Prints what could not be read of an input that could be used; the exit code for it."""
    for line in damage[:MOST_LINES]:
        print(f"roofexp.{name}: {line}", file=sys.stderr)
    if len(damage) > MOST_LINES:
        print(f"roofexp.{name}: {len(damage) - MOST_LINES} more files cannot be read", file=sys.stderr)
    return EXIT_POINT_FAILED if damage else EXIT_OK


def _folders(options: argparse.Namespace) -> list[Path]:
    """Those of the sweeps that a command opens; other words, such as the id of a run, name none."""
    given = [getattr(options, name, None) for name in ("folder", "a", "b", "measured", "into")]
    words = [word for value in given for word in (value if isinstance(value, list) else [value]) if word is not None]
    return [Path(word) for word in words if "\0" not in str(word) and os.path.isdir(word)]


def _end(name: str, message: str, code: int) -> int:
    shown = printable(message)
    print(f"roofexp.{name}: {shown if len(shown) <= LONGEST else f'{shown[:LONGEST]}…'}", file=sys.stderr)
    return code


def _until_reader_leaves(start: Callable[[], int]) -> int:
    """What ``start`` returns; 0 where the reader of a pipe has seen enough."""
    try:
        code = start()
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
        return EXIT_OK
    return code
