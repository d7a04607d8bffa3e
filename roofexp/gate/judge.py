"""Every rule at every point that it is for: kept, broken, or not applicable. Pure, from records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofexp.compare.comparison import compare
from roofexp.compare.difference import CHANGED, Difference
from roofexp.compare.reading import Settings
from roofexp.compare.side import Side, read_side
from roofexp.compare.words import signed
from roofexp.errors import BadInputError
from roofexp.gate.facts import AGAINST, FACTS, why_unknown
from roofexp.gate.rules import Rule, holds
from roofexp.point import Point
from roofexp.units import engineering, percent

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
