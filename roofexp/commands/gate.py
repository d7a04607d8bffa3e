"""``python -m roofexp.gate FOLDER --gate FILE``: the rules of a gate at the files of a sweep."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from roofexp.compare.comparison import write
from roofexp.compare.matching import read_side
from roofexp.config.paths import PACKAGE
from roofexp.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.gate import JUNIT, MARKDOWN, broken, judge, junit_xml, lines, markdown, read_gate
from roofexp.gate.rules import AGAINST, FACTS

EXAMPLE = PACKAGE / "gate/example.yaml"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 for a broken rule, 2 for a gate or a folder that cannot be read."""
    options = parser().parse_args(arguments)
    if options.example:
        print(EXAMPLE.read_text(), end="")
        return EXIT_OK
    try:
        return _judge(options)
    except BadInputError as error:
        print(f"roofexp.gate: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def parser() -> argparse.ArgumentParser:
    facts = {**FACTS, **AGAINST}
    width = max(map(len, facts))
    listed = "\n".join(f"  {name:{width}}  {about}" for name, (about, _) in facts.items())
    found = argparse.ArgumentParser(
        prog="python -m roofexp.gate",
        description="Judges a sweep by rules: exit code 1 and one line for each point that breaks one.",
        epilog=f"A rule may ask for:\n{listed}\n\n--example prints a file of rules. During a sweep: "
        "python -m roofexp ... --gate FILE",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("folder", type=Path, nargs="?", metavar="FOLDER", help="the folder of a sweep")
    found.add_argument("--gate", metavar="FILE", help="rules, YAML; else the gate.yaml that lies in the folder")
    found.add_argument("--junit", metavar="FILE", help=f"else {JUNIT} in the folder; - for the output")
    found.add_argument("--markdown", metavar="FILE", help=f"else {MARKDOWN} in the folder; - for the output")
    found.add_argument("--example", action="store_true", help="print an example of rules and stop")
    return found


def _judge(options: argparse.Namespace) -> int:
    if options.folder is None:
        raise BadInputError("FOLDER is missing; allowed: the folder of one sweep, e.g. outputs/gemm/<date_time>")
    side = read_side(options.folder)
    gate = read_gate(options.gate or str((options.folder / "gate.yaml").absolute()), Path.cwd())
    verdicts = judge(gate.rules, side)
    write(options.junit or str(options.folder / JUNIT), junit_xml(verdicts, gate.name))
    write(options.markdown or str(options.folder / MARKDOWN), markdown(verdicts, side.name))
    out = sys.stderr if "-" in (options.junit, options.markdown) else sys.stdout
    for line in lines(verdicts, gate.name):
        print(line, file=out)
    return EXIT_POINT_FAILED if broken(verdicts) else EXIT_OK
