"""A gate for a sweep: its rules read before the first job, judged after the last, its outcome kept in the folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from roofexp.compare.side import read_side
from roofexp.errors import EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.gate.judge import Verdict, broken, judge
from roofexp.gate.reports import junit_xml, markdown
from roofexp.gate.rules import Rule, read_rules
from roofexp.point import write_atomically

JUNIT, MARKDOWN, COPY = "gate.xml", "gate.md", "gate.yaml"
LINES = 40


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """``content``: the file as it was, kept with the sweep."""

    name: str
    rules: list[Rule]
    content: bytes


def read_gate(file: str, here: Path) -> Gate:
    """``here``: where relative paths start. Raises BadInputError."""
    path = here / file
    rules = read_rules(path, here)
    return Gate(name=path.name, rules=rules, content=path.read_bytes())


def pass_sweep(gate: Gate, folder: Path) -> tuple[int, list[str]]:
    """Judges a finished sweep, writes gate.xml, gate.md and gate.yaml into its folder; the exit code and what to say.

    A gate that cannot be judged is not passed.
    """
    try:
        verdicts = judge(gate.rules, read_side(folder))
    except BadInputError as error:
        return EXIT_POINT_FAILED, [f"gate     not judged: {error}"]
    try:
        write_atomically(folder / COPY, gate.content)
        write_atomically(folder / JUNIT, junit_xml(verdicts, gate.name))
        write_atomically(folder / MARKDOWN, markdown(verdicts, folder.name))
    except OSError as error:
        print(f"gate: its files cannot be written ({error.strerror})", file=sys.stderr)
    return (EXIT_POINT_FAILED if broken(verdicts) else EXIT_OK), lines(verdicts, gate.name)


def lines(verdicts: Sequence[Verdict], name: str) -> list[str]:
    """One for each broken rule and point, then how many were kept."""
    wrong = broken(verdicts)
    found = [f"  broken {verdict.line}" for verdict in wrong[:LINES]]
    found += [f"  broken: {len(wrong) - LINES} more in {JUNIT}"] if len(wrong) > LINES else []
    skipped = sum(verdict.outcome == "skipped" for verdict in verdicts)
    kept = len(verdicts) - len(wrong) - skipped
    also = f", {skipped} skipped" if skipped else ""
    return [*found, f"gate     {name}: {'broken' if wrong else 'kept'} ({kept} kept, {len(wrong)} broken{also})"]
