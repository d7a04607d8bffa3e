"""Why a point is not faster: facts, rules in YAML, one verdict. Importing this imports nothing heavy."""

from __future__ import annotations

from typing import Any

import msgspec

from roofexp.config.settings import PlacingSettings
from roofexp.diagnosis.facts import Facts, facts_of, vocabulary
from roofexp.diagnosis.rules import PLACEHOLDER, EvidenceRule, Formula, Rule, Rules, names_in, read_rules
from roofexp.errors import BadInputError
from roofexp.kernel.formula import evaluate
from roofexp.placing.roofline import PLACING_FLAGS, place
from roofexp.records.machine import RoofSet
from roofexp.records.point import Cause, Diagnosis, Evidence, Flag, Point
from roofexp.text.numbers import engineering, percent, plain

NOT_DIAGNOSED = "not diagnosed"


def diagnose(point: Point, roofs: RoofSet | None, settings: PlacingSettings) -> Diagnosis | None:
    """Why the point is not faster; None without a time, or where no rule applies. Raises BadInputError for a file of
    rules that cannot be used."""
    if point.timing is None or point.placement is None:
        return None
    return judge(facts_of(point, roofs, settings), read_rules(settings.rules))


def placed(point: Point, roofs: RoofSet | None, settings: PlacingSettings) -> Point:
    """The point under ``roofs``, with its verdict and without what an earlier placing said of it; unchanged without
    roofs or without a time."""
    if point.timing is None or roofs is None:
        return point
    placement, flags = place(point, roofs, settings)
    kept = [flag for flag in point.flags if flag.name not in PLACING_FLAGS]
    return diagnosed(msgspec.structs.replace(point, placement=placement, flags=[*kept, *flags]), roofs, settings)


def diagnosed(point: Point, roofs: RoofSet | None, settings: PlacingSettings) -> Point:
    """The point with its diagnosis. A file of rules that cannot be used costs the diagnosis, nothing else."""
    flags = [flag for flag in point.flags if flag.name != NOT_DIAGNOSED]
    try:
        return msgspec.structs.replace(point, diagnosis=diagnose(point, roofs, settings), flags=flags)
    except BadInputError as error:
        return msgspec.structs.replace(point, diagnosis=None, flags=[*flags, Flag(NOT_DIAGNOSED, str(error))])


def judge(facts: Facts, rules: Rules) -> Diagnosis | None:
    """The verdict on what is known, under ``rules``; None where no rule applies."""
    fallbacks = {rule.name for rule in rules.rules if rule.fallback}
    beside = {rule.name for rule in rules.rules if rule.beside}
    binding = {rule.name for rule in rules.rules if rule.binds is not None and _holds(rule.binds, facts, rule)}
    results = [cause for rule in rules.rules if (cause := apply(rule, facts)) is not None]
    results.sort(key=lambda cause: -cause.score)
    causes = [cause for cause in results if not cause.healthy]
    reached = sorted((cause for cause in results if cause.healthy), key=lambda cause: cause.name not in binding)
    worth = any(cause.score >= rules.worth for cause in causes if cause.name not in beside)
    if reached:
        causes.sort(key=lambda cause: (cause.name in beside, -cause.score))
    ordered = [*causes, *reached] if worth or not reached else [*reached, *causes]
    if not ordered:
        return None
    others = [cause for cause in ordered[1:] if cause.score >= rules.minor and cause.name not in fallbacks]
    return Diagnosis(verdict=ordered[0], others=others, basis="counters" if facts["basis"] == "counters" else "time")


def apply(rule: Rule, facts: Facts) -> Cause | None:
    """What the rule says; None where it does not hold, or where a fact that it needs is not known."""
    names = {name for formula in (*rule.when, rule.score) for name in names_in(formula)}
    if not names | set(rule.needs) <= facts.keys():
        return None
    try:
        if not all(_value(condition, facts, rule) for condition in rule.when):
            return None
        score = float(_value(rule.score, facts, rule))
    except (BadInputError, TypeError, ValueError):  # a quotient by zero, a text in a sum: nothing is known
        return None
    return Cause(
        name=rule.name,
        message=say(rule.message, facts),
        next_move=(rule.next_move_cpu if facts.get("device") == "cpu" else None) or rule.next_move,
        score=min(1.0, max(0.0, score)),
        evidence=[
            _evidence(item, facts, rule) for item in rule.evidence if isinstance(facts.get(item.fact), (int, float))
        ],
        healthy=rule.healthy,
    )


def _value(formula: Formula, facts: Facts, rule: Rule) -> Any:
    return evaluate(formula, facts, f"rule {rule.name!r}")


def _holds(condition: str, facts: Facts, rule: Rule) -> bool:
    """A fact that is not known makes it false."""
    try:
        return names_in(condition) <= set(facts) and bool(_value(condition, facts, rule))
    except (BadInputError, TypeError, ValueError):
        return False


def _evidence(item: EvidenceRule, facts: Facts, rule: Rule) -> Evidence:
    """Shares are told in per cent, and so are their thresholds."""
    meaning = vocabulary()[item.fact]
    factor = 100.0 if meaning.unit == "share" else 1.0
    return Evidence(
        what=meaning.label,
        value=factor * float(facts[item.fact]),
        threshold=_threshold(item, facts, rule, factor),
        unit=item.unit if item.unit is not None else "%" if meaning.unit == "share" else meaning.unit,
    )


def _threshold(item: EvidenceRule, facts: Facts, rule: Rule, factor: float) -> float | None:
    if item.threshold is None:
        return None
    try:
        return factor * float(_value(item.threshold, facts, rule))
    except (BadInputError, TypeError, ValueError):
        return None


def say(message: str, facts: Facts) -> str:
    """The message with its facts: ``{name}`` as a number, ``{name:%}`` as per cent, ``{name:B}`` with a unit."""

    def shown(match: Any) -> str:
        value, how = facts.get(match[1]), match[2] or ""
        if value is None:
            return "unknown"
        if isinstance(value, str):
            return value
        return percent(value) if how == "%" else engineering(value, how) if how else plain(value)

    return PLACEHOLDER.sub(shown, message)
