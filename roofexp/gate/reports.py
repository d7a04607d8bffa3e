"""The gate's outcome for CI systems: JUnit XML with a test case for every rule and point, and a Markdown summary."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from roofexp.gate.judge import Verdict, broken

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
