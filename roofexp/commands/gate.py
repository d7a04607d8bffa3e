"""``python -m roofexp.gate FOLDER --gate FILE`` judges the files of a sweep by the rules of a gate."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from roofexp.commands import report_damage
from roofexp.compare.comparison import write
from roofexp.compare.matching import read_side
from roofexp.config.paths import PACKAGE
from roofexp.errors import EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.gate import JUNIT, MARKDOWN, broken, judge, junit_xml, lines, markdown, read_gate
from roofexp.gate.rules import CHANGES, PROPERTIES
from roofexp.records.point import unreadable

EXAMPLE = PACKAGE / "gate/example.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    properties = {**PROPERTIES, **CHANGES}
    width = max(map(len, properties))
    listed = "\n".join(f"  {name:{width}}  {about}" for name, (about, _) in properties.items())
    parser.epilog = (
        f"A rule may ask for:\n{listed}\n\n--example prints a file of rules. During a sweep: "
        "python -m roofexp ... --gate FILE"
    )
    parser.add_argument("folder", type=Path, nargs="?", metavar="FOLDER", help="the folder of a sweep")
    parser.add_argument("--gate", metavar="FILE", help="a YAML file of rules; else gate.yaml in the folder")
    parser.add_argument("--junit", metavar="FILE", help=f"else {JUNIT} in the folder; - for the output")
    parser.add_argument("--markdown", metavar="FILE", help=f"else {MARKDOWN} in the folder; - for the output")
    parser.add_argument("--example", action="store_true", help="print an example of rules and stop")


def run(options: argparse.Namespace) -> int:
    """The exit code: 1 for a broken rule, and where a file could not be read."""
    if options.example:
        print(EXAMPLE.read_text(), end="")
        return EXIT_OK
    if options.folder is None:
        raise BadInputError("FOLDER is missing; allowed: the folder of one sweep, e.g. outputs/gemm/<date_time>")
    side = read_side(options.folder)
    gate = read_gate(options.gate or str((options.folder / "gate.yaml").absolute()), Path.cwd())
    judgements = judge(gate.rules, side)
    write(options.junit or str(options.folder / JUNIT), junit_xml(judgements, gate.name))
    write(options.markdown or str(options.folder / MARKDOWN), markdown(judgements, side.name))
    out = sys.stderr if "-" in (options.junit, options.markdown) else sys.stdout
    for line in lines(judgements, gate.name):
        print(line, file=out)
    damage = report_damage("gate", [*unreadable(side.points), *side.problems])
    return EXIT_POINT_FAILED if damage or broken(judgements) else EXIT_OK
