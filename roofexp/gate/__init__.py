"""The gate for CI: judges the points of a sweep by rules and writes JUnit XML and Markdown.

Importing this imports nothing heavy.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofexp.compare.comparison import compare
from roofexp.compare.difference import CHANGED, Difference, Thresholds, unusual
from roofexp.compare.matching import Side, read_side
from roofexp.errors import EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.gate.rules import CHANGES, PROPERTIES, Rule, holds, read_rules, why_unknown
from roofexp.records.files import write_atomically
from roofexp.records.point import Point
from roofexp.text.console import printable
from roofexp.text.numbers import engineering, percent, signed

Outcome = Literal["kept", "broken", "skipped"]

UNITS = {
    "time_s": "s",
    "flops_per_s": "FLOP/s",
    "bytes_per_s": "B/s",
    "compute_hz": "Hz",
    "joules": "J",
    "intensity": "FLOP/B",
}

SHARES = ("fraction", "slowdown", "time_slowdown")


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """``actual`` says what the point has where the rule asks; ``point`` is None for a rule that is for no point."""

    rule: Rule
    point: Point | None
    outcome: Outcome
    actual: str

    @property
    def where(self) -> str:
        return label_of(self.point) if self.point else self.rule.selection

    @property
    def line(self) -> str:
        about = f" ({self.rule.about})" if self.rule.about else ""
        return f"{self.rule.title}{about}: {self.where}: {self.actual}"


def label_of(point: Point) -> str:
    """Tells the points of a sweep apart for a reader."""
    return " ".join([point.label, *unusual(point), f"(job {point.job})"])


def judge(rules: Sequence[Rule], side: Side) -> list[Judgement]:
    """In the order of the rules, then of the points."""
    baselines = _Baselines(side)
    judgements = []
    for rule in rules:
        chosen = [point for point in side.points if rule.is_for(point)]
        if not chosen:
            actual = f"no point of this sweep is {rule.selection}" if rule.selection != "all points" else "no point"
            judgements.append(Judgement(rule=rule, point=None, outcome="broken", actual=actual))
        judgements += [_judgement(rule, point, baselines) for point in chosen]
    return judgements


def broken(judgements: Sequence[Judgement]) -> list[Judgement]:
    return [judgement for judgement in judgements if judgement.outcome == "broken"]


def _judgement(rule: Rule, point: Point, baselines: _Baselines) -> Judgement:
    if point.status == "skipped" and "status" not in rule.names:
        return Judgement(rule=rule, point=point, outcome="skipped", actual=f"skipped: {point.reason}")
    values = {name: PROPERTIES[name][1](point) for name in rule.names if name in PROPERTIES}
    for name, value in values.items():
        if value is None:
            unknown = f"{name} is not known: {why_unknown(name, point)}"
            return Judgement(rule=rule, point=point, outcome="broken", actual=unknown)
    difference: Difference | None = None
    if rule.against is not None:
        difference, why = baselines.difference(rule, point)
        if difference is None:
            unknown = f"{next(name for name in rule.names if name in CHANGES)} is not known: {why}"
            return Judgement(rule=rule, point=point, outcome="broken", actual=unknown)
        values |= {name: CHANGES[name][1](difference) for name in rule.names if name in CHANGES}
    kept = holds(rule, values)
    actual = ", ".join(f"{name} = {shown(name, values[name])}" for name in rule.names)
    if difference is not None:
        actual += f" ({difference.verdict}{f': {difference.message}' if difference.message else ''})"
        if not kept and rule.significant and difference.verdict not in CHANGED:
            return Judgement(rule=rule, point=point, outcome="kept", actual=f"{actual}; no significant change")
    return Judgement(rule=rule, point=point, outcome="kept" if kept else "broken", actual=actual)


def shown(name: str, value: Any) -> str:
    """A fact as a person reads it."""
    if name in CHANGES:
        return signed(value)
    if name in SHARES:
        return percent(value)
    if name in UNITS:
        return engineering(value, UNITS[name])
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class _Baselines:
    """Each sweep that rules compare with, compared once."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._compared: dict[tuple[Path, tuple[str, ...]], tuple[dict[int, Difference], str]] = {}

    def difference(self, rule: Rule, point: Point) -> tuple[Difference | None, str]:
        """The point against its like in the baseline, or why there is none."""
        assert rule.against
        key = (rule.against, tuple(rule.across))
        if key not in self._compared:
            self._compared[key] = self._compare(*key)
        differences, refused = self._compared[key]
        if point.status != "ok":
            return None, f"{point.status}: {point.reason or 'no reason is recorded'}"
        return differences.get(point.job), refused or f"{rule.against.name} has no such point"

    def _compare(self, folder: Path, across: tuple[str, ...]) -> tuple[dict[int, Difference], str]:
        try:
            comparison = compare(read_side(folder), self.side, Thresholds(), across)
        except BadInputError as error:
            return {}, str(error)
        return {difference.b.job: difference for difference in comparison.differences}, ""


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
        judgements = judge(gate.rules, read_side(folder))
    except BadInputError as error:
        return EXIT_POINT_FAILED, [f"gate     not judged: {error}"]
    try:
        write_atomically(folder / COPY, gate.content)
        write_atomically(folder / JUNIT, junit_xml(judgements, gate.name))
        write_atomically(folder / MARKDOWN, markdown(judgements, folder.name))
    except OSError as error:
        print(f"gate: its files cannot be written ({error.strerror})", file=sys.stderr)
    return (EXIT_POINT_FAILED if broken(judgements) else EXIT_OK), lines(judgements, gate.name)


def lines(judgements: Sequence[Judgement], name: str) -> list[str]:
    """One for each broken rule and point, then how many were kept."""
    wrong = broken(judgements)
    texts = [f"  broken {judgement.line}" for judgement in wrong[:LINES]]
    texts += [f"  broken: {len(wrong) - LINES} more in {JUNIT}"] if len(wrong) > LINES else []
    skipped = sum(judgement.outcome == "skipped" for judgement in judgements)
    kept = len(judgements) - len(wrong) - skipped
    also = f", {skipped} skipped" if skipped else ""
    return [*texts, f"gate     {name}: {'broken' if wrong else 'kept'} ({kept} kept, {len(wrong)} broken{also})"]


ROWS = 100  # of a Markdown table: CI summaries have a limit


def junit_xml(judgements: Sequence[Judgement], gate: str) -> bytes:
    """The dialect that CI systems read: testsuites, testsuite, testcase, failure, skipped."""
    counts = {
        "tests": str(len(judgements)),
        "failures": str(len(broken(judgements))),
        "errors": "0",
        "skipped": str(sum(judgement.outcome == "skipped" for judgement in judgements)),
    }
    root = ElementTree.Element("testsuites", {"name": "roofexp gate", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": f"roofexp gate {gate}", **counts})
    for judgement in judgements:
        time_s = judgement.point.measuring_s if judgement.point else 0.0
        names = {"classname": printable(judgement.rule.title), "name": printable(judgement.where)}
        case = ElementTree.SubElement(suite, "testcase", {**names, "time": f"{time_s:.3f}"})
        if judgement.outcome == "broken":
            failure = ElementTree.SubElement(case, "failure", message=printable(judgement.actual), type="rule broken")
            failure.text = printable(judgement.line)
        elif judgement.outcome == "skipped":
            ElementTree.SubElement(case, "skipped", message=printable(judgement.actual))
        else:
            ElementTree.SubElement(case, "system-out").text = printable(judgement.actual)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def markdown(judgements: Sequence[Judgement], sweep: str) -> bytes:
    """What was broken, then every rule with how often it was kept."""
    wrong = broken(judgements)
    state = f"{len(wrong)} of {len(judgements)} checks broken" if wrong else f"all {len(judgements)} checks kept"
    lines = [f"### {'❌' if wrong else '✅'} roofexp gate: {state}", "", f"Sweep `{sweep}`", ""]
    if wrong:
        lines += ["| point | rule | found |", "|---|---|---|"]
        lines += [f"| {_cell(v.where)} | {_cell(v.rule.text)} | {_cell(v.actual)} |" for v in wrong[:ROWS]]
        lines += ["", f"and {len(wrong) - ROWS} more in gate.xml"] if len(wrong) > ROWS else []
        lines += [""]
    lines += ["| rule | for | kept | broken | skipped |", "|---|---|--:|--:|--:|"]
    for number in dict.fromkeys(judgement.rule.number for judgement in judgements):
        own = [judgement for judgement in judgements if judgement.rule.number == number]
        outcomes = [judgement.outcome for judgement in own]
        counts = " | ".join(str(outcomes.count(name)) for name in ("kept", "broken", "skipped"))
        rule = own[0].rule
        text = f"{rule.text} ({rule.about})" if rule.about else rule.text
        lines.append(f"| {number}. {_cell(text)} | {_cell(rule.selection)} | {counts} |")
    return ("\n".join(lines) + "\n").encode()


def _cell(text: str) -> str:
    return printable(" ".join(text.split())).replace("|", "\\|")
