"""The gate: rules that the points of a sweep must keep, for CI. Importing this imports nothing heavy."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofexp.compare.comparison import compare
from roofexp.compare.difference import CHANGED, Difference, Settings, signed
from roofexp.compare.matching import Side, read_side
from roofexp.errors import EXIT_OK, EXIT_POINT_FAILED, BadInputError
from roofexp.gate.rules import AGAINST, FACTS, Rule, holds, read_rules, why_unknown
from roofexp.records.files import write_atomically
from roofexp.records.point import Point
from roofexp.text.numbers import engineering, percent

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


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """``found`` says what the point has where the rule asks; ``point`` is None for a rule that is for no point."""

    rule: Rule
    point: Point | None
    outcome: Outcome
    found: str

    @property
    def where(self) -> str:
        return label_of(self.point) if self.point else self.rule.selection

    @property
    def line(self) -> str:
        about = f" ({self.rule.about})" if self.rule.about else ""
        return f"{self.rule.title}{about}: {self.where}: {self.found}"


def label_of(point: Point) -> str:
    """Tells the points of a sweep apart for a reader."""
    ordinary = {"cold", "observe", "normal"}
    words = [w for w in (point.cache_state, point.clock_mode, point.fill) if w not in ordinary]
    return " ".join([point.label, *words, f"(job {point.job})"])


def judge(rules: Sequence[Rule], side: Side) -> list[Verdict]:
    """In the order of the rules, then of the points."""
    baselines = _Baselines(side)
    verdicts = []
    for rule in rules:
        chosen = [point for point in side.points if rule.is_for(point)]
        if not chosen:
            found = f"no point of this sweep is {rule.selection}" if rule.selection != "all points" else "no point"
            verdicts.append(Verdict(rule=rule, point=None, outcome="broken", found=found))
        verdicts += [_verdict(rule, point, baselines) for point in chosen]
    return verdicts


def broken(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.outcome == "broken"]


def _verdict(rule: Rule, point: Point, baselines: _Baselines) -> Verdict:
    if point.status == "skipped" and "status" not in rule.names:
        return Verdict(rule=rule, point=point, outcome="skipped", found=f"skipped: {point.reason}")
    facts = {name: FACTS[name][1](point) for name in rule.names if name in FACTS}
    for name, value in facts.items():
        if value is None:
            unknown = f"{name} is not known: {why_unknown(name, point)}"
            return Verdict(rule=rule, point=point, outcome="broken", found=unknown)
    difference: Difference | None = None
    if rule.against is not None:
        difference, why = baselines.difference(rule, point)
        if difference is None:
            unknown = f"{next(name for name in rule.names if name in AGAINST)} is not known: {why}"
            return Verdict(rule=rule, point=point, outcome="broken", found=unknown)
        facts |= {name: AGAINST[name][1](difference) for name in rule.names if name in AGAINST}
    kept = holds(rule, facts)
    found = ", ".join(f"{name} = {shown(name, facts[name])}" for name in rule.names)
    if difference is not None:
        found += f" ({difference.verdict}{f': {difference.message}' if difference.message else ''})"
        if not kept and rule.significant and difference.verdict not in CHANGED:
            return Verdict(rule=rule, point=point, outcome="kept", found=f"{found}; no significant change")
    return Verdict(rule=rule, point=point, outcome="kept" if kept else "broken", found=found)


def shown(name: str, value: Any) -> str:
    """A fact as a person reads it."""
    if name in AGAINST:
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
        found, refused = self._compared[key]
        if point.status != "ok":
            return None, f"{point.status}: {point.reason or 'no reason is recorded'}"
        return found.get(point.job), refused or f"{rule.against.name} has no such point"

    def _compare(self, folder: Path, across: tuple[str, ...]) -> tuple[dict[int, Difference], str]:
        try:
            comparison = compare(read_side(folder), self.side, Settings(), across)
        except BadInputError as error:
            return {}, str(error)
        return {each.b.job: each for each in comparison.differences}, ""


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


ROWS = 100  # of a Markdown table: CI summaries have a limit


def junit_xml(verdicts: Sequence[Verdict], gate: str) -> bytes:
    """The dialect that CI systems read: testsuites, testsuite, testcase, failure, skipped."""
    counts = {
        "tests": str(len(verdicts)),
        "failures": str(len(broken(verdicts))),
        "errors": "0",
        "skipped": str(sum(verdict.outcome == "skipped" for verdict in verdicts)),
    }
    root = ElementTree.Element("testsuites", {"name": "roofexp gate", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": f"roofexp gate {gate}", **counts})
    for verdict in verdicts:
        time_s = verdict.point.measuring_s if verdict.point else 0.0
        case = ElementTree.SubElement(
            suite, "testcase", classname=_plain(verdict.rule.title), name=_plain(verdict.where), time=f"{time_s:.3f}"
        )
        if verdict.outcome == "broken":
            failure = ElementTree.SubElement(case, "failure", message=_plain(verdict.found), type="rule broken")
            failure.text = _plain(verdict.line)
        elif verdict.outcome == "skipped":
            ElementTree.SubElement(case, "skipped", message=_plain(verdict.found))
        else:
            ElementTree.SubElement(case, "system-out").text = _plain(verdict.found)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def markdown(verdicts: Sequence[Verdict], sweep: str) -> bytes:
    """What was broken, then every rule with how often it was kept."""
    wrong = broken(verdicts)
    state = f"{len(wrong)} of {len(verdicts)} checks broken" if wrong else f"all {len(verdicts)} checks kept"
    lines = [f"### {'❌' if wrong else '✅'} roofexp gate: {state}", "", f"Sweep `{sweep}`", ""]
    if wrong:
        lines += ["| point | rule | found |", "|---|---|---|"]
        lines += [f"| {_cell(v.where)} | {_cell(v.rule.text)} | {_cell(v.found)} |" for v in wrong[:ROWS]]
        lines += ["", f"and {len(wrong) - ROWS} more in gate.xml"] if len(wrong) > ROWS else []
        lines += [""]
    lines += ["| rule | for | kept | broken | skipped |", "|---|---|--:|--:|--:|"]
    for number in dict.fromkeys(verdict.rule.number for verdict in verdicts):
        own = [verdict for verdict in verdicts if verdict.rule.number == number]
        outcomes = [verdict.outcome for verdict in own]
        counts = " | ".join(str(outcomes.count(name)) for name in ("kept", "broken", "skipped"))
        rule = own[0].rule
        text = f"{rule.text} ({rule.about})" if rule.about else rule.text
        lines.append(f"| {number}. {_cell(text)} | {_cell(rule.selection)} | {counts} |")
    return ("\n".join(lines) + "\n").encode()


def _plain(text: str) -> str:
    """Without characters that XML 1.0 cannot hold."""
    return "".join(letter for letter in text if letter in "\t\n" or letter >= " ")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
