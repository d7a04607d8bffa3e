"""The rules of the diagnosis, read from YAML and checked: what is wrong in the file is said before it is used."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Set
from pathlib import Path

import msgspec

from roofexp.config.yaml_file import read_yaml
from roofexp.diagnosis.facts import vocabulary
from roofexp.errors import BadInputError
from roofexp.kernel.formula import ARITHMETIC

OWN = Path(__file__).with_name("rules.yaml")
PLACEHOLDER = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
Formula = str | int | float


class EvidenceRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fact: str
    threshold: Formula | None = None
    unit: str | None = None  # the fact's own unless said otherwise


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cause, or one roof that is reached; see the comments in rules.yaml."""

    name: str
    when: list[str]
    score: Formula
    message: str
    next_move: str
    next_move_cpu: str | None = None
    healthy: bool = False
    fallback: bool = False
    binds: str | None = None
    beside: bool = False
    needs: list[str] = []
    evidence: list[EvidenceRule] = []

    @property
    def formulas(self) -> dict[str, Formula]:
        """Every formula of the rule by the key that it stands under."""
        thresholds = {
            f"evidence.{item.fact}.threshold": item.threshold for item in self.evidence if item.threshold is not None
        }
        binds = {} if self.binds is None else {"binds": self.binds}
        return {**{f"when[{i}]": text for i, text in enumerate(self.when)}, "score": self.score, **binds, **thresholds}


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``worth``: a cause that costs less of the time is no verdict where a roof is reached; ``minor``: one that costs
    less is not listed."""

    rules: list[Rule]
    worth: float = 0.15
    minor: float = 0.02

    @property
    def names(self) -> list[str]:
        return [rule.name for rule in self.rules]


@functools.cache
def read_rules(file: str | None = None) -> Rules:
    """The program's own rules, or those of a file. Raises BadInputError with file, rule and what is allowed."""
    path, where = (OWN, "rules.yaml") if file is None else (Path(file), file)
    try:
        written = read_yaml(path, f"placing.rules={file}" if file else where)
        if not isinstance(written, dict) or not written.get("rules"):
            raise BadInputError(f"{where}: no rules in it; allowed: a list called rules, as in diagnosis/rules.yaml")
        rules = msgspec.convert(written, Rules)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{where}: {error}") from error
    for rule in rules.rules:
        _check(rule, f"{where}: rule {rule.name!r}")
    twice = {name for name in rules.names if rules.names.count(name) > 1}
    if twice:
        raise BadInputError(f"{where}: several rules are called {', '.join(sorted(twice))}")
    return rules


def _check(rule: Rule, where: str) -> None:
    """Every formula can be read, and every name in it is a fact."""
    for key, formula in rule.formulas.items():
        _check_names(names_in(formula, f"{where}: {key}"), f"{where}: {key}")
    _check_names(set(rule.needs), f"{where}: needs")
    _check_names({item.fact for item in rule.evidence}, f"{where}: evidence")
    _check_names({name for name, _ in PLACEHOLDER.findall(rule.message)}, f"{where}: message")


def _check_names(names: Set[str], where: str) -> None:
    unknown = sorted(names - set(vocabulary()))
    if unknown:
        from difflib import get_close_matches

        close = get_close_matches(unknown[0], vocabulary(), n=3)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise BadInputError(f"{where}: unknown fact {unknown[0]!r}; {hint}known: {', '.join(vocabulary())}")


@functools.cache
def names_in(formula: Formula, where: str = "") -> frozenset[str]:
    """The facts that a formula uses. Raises BadInputError where it is no formula."""
    if not isinstance(formula, str):
        return frozenset()
    try:
        tree = ast.parse(formula.strip(), mode="eval")
    except SyntaxError as error:
        raise BadInputError(f"{where}: {formula!r} is not a formula ({error.msg})") from error
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    unknown = sorted(called - set(ARITHMETIC))
    if unknown:
        raise BadInputError(f"{where}: unknown function {unknown[0]!r} in {formula!r}; known: {', '.join(ARITHMETIC)}")
    return frozenset(names - called)
