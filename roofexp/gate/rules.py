"""The rules of a gate: reading them from YAML, and the properties of a point that they may ask for.

A property that is None is unknown.
"""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from roofexp.compare.difference import Difference
from roofexp.config.yaml_file import read_yaml
from roofexp.errors import BadInputError
from roofexp.kernel.formula import ARITHMETIC, evaluate
from roofexp.records.point import Point


class BoundText(str):
    """A verdict like ``on the compute roof``; equal to its family too: bandwidth, compute or latency."""

    __slots__ = ()

    @property
    def family(self) -> str:
        return next((name for name in FAMILIES if name in self), "")

    def __eq__(self, other: object) -> bool:
        return str(self) == other or (bool(self.family) and self.family == other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


FAMILIES = ("bandwidth", "compute", "latency")
WORDS = {name: name for name in (*FAMILIES, "ok", "failed", "skipped", "hot", "cold")}  # may stand without quotes


def _bound(point: Point) -> BoundText | None:
    return BoundText(point.placement.bound) if point.placement else None


PROPERTIES: dict[str, tuple[str, Callable[[Point], Any]]] = {
    "status": ("ok, failed or skipped", lambda p: p.status),
    "fraction": ("share of what the roofs allow", lambda p: p.placement.fraction if p.placement else None),
    "bound": ("where it lies: bandwidth, compute, latency, or the verdict in full", _bound),
    "roof": ("the roof that binds", lambda p: p.placement.roof if p.placement else None),
    "verdict": ("the diagnosis by name", lambda p: p.diagnosis.verdict.name if p.diagnosis else None),
    "time_s": ("of one launch, median", lambda p: p.timing.median_s if p.timing else None),
    "flops_per_s": ("useful FLOP/s", lambda p: p.flops_per_s),
    "bytes_per_s": ("B/s", lambda p: p.bytes_per_s),
    "intensity": ("FLOP/B", lambda p: p.placement.intensity_flop_per_byte if p.placement else None),
    "compute_hz": ("clock held", lambda p: p.clock.compute_hz if p.clock else None),
    "joules": ("energy of one launch", lambda p: p.joules),
    "error": ("of the result, over its scale", lambda p: p.check.error if p.check else None),
    "samples": ("of time", lambda p: p.timing.samples if p.timing else None),
    "occupancy_pct": ("counted", lambda p: p.counted.occupancy_pct if p.counted else None),
    "registers": ("of a thread, counted", lambda p: p.counted.registers if p.counted else None),
    "flagged": ("whether any flag is up", lambda p: bool(p.flags)),
    "flags": ("names of the flags: 'noisy' in flags", lambda p: [flag.name for flag in p.flags]),
    "kernel": ("its name", lambda p: p.kernel),
    "size": ("the swept number", lambda p: p.size),
    "precision": ("fp32 ...", lambda p: p.precision),
    "cache": ("cold or hot", lambda p: p.cache_state),
}

CHANGES: dict[str, tuple[str, Callable[[Difference], Any]]] = {
    "slowdown": ("0.03: 3 % slower than in `against`; in cycles where only the clock made the time differ or hid it",
                 lambda d: _slowdown(d)),
    "time_slowdown": ("the same in time, whatever the clock did", lambda d: d.slowdown),
}  # fmt: skip


def _slowdown(difference: Difference) -> float:
    in_cycles = difference.verdict.endswith(("by the clock", "in cycles"))
    return difference.cycles_ratio - 1 if in_cycles and difference.cycles_ratio else difference.slowdown


def why_unknown(name: str, point: Point) -> str:
    """For a fact of a point that is None."""
    if point.status != "ok":
        return f"{point.status}: {point.reason or 'no reason is recorded'}"
    if name in ("fraction", "bound", "roof", "intensity"):
        missing = next((flag.message for flag in point.flags if flag.name in ("no roof", "nothing to place")), None)
        return missing or ("its placement has none" if point.placement else "not placed under roofs (roofs=none?)")
    if name in ("occupancy_pct", "registers"):
        return (point.counted.unavailable if point.counted else None) or "not counted (counters=none?)"
    return {
        "flops_per_s": "a kernel without FLOPs",
        "bytes_per_s": "the traffic is unknown",
        "verdict": "no diagnosis was made",
        "joules": "the device counts no energy",
        "compute_hz": "the clock could not be read",
        "error": "the result was not checked",
    }.get(name, "not in the record")


SELECTORS: dict[str, Callable[[Point], str]] = {
    "kernel": lambda point: point.kernel,
    "precision": lambda point: point.precision,
    "cache": lambda point: point.cache_state,
    "clock": lambda point: point.clock_mode,
    "fill": lambda point: point.fill,
    "device": lambda point: point.device or "",
}

KEYS = ("rule", *SELECTORS, "size", "against", "significant", "across", "about")
PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%(?!\s*[\w(])")
COMPARED = re.compile(r"(<=|>=|==|!=|<|>)\s*(\d[\d_]*)")
RANGE = re.compile(r"(\d[\d_]*)\s*\.\.\s*(\d[\d_]*)")

EXAMPLES: dict[str, Any] = {  # a value of each fact's type, to try a rule with before anything is measured
    **dict.fromkeys(PROPERTIES, 0.5),
    **dict.fromkeys(CHANGES, 0.5),
    **dict.fromkeys(("status", "roof", "verdict", "kernel", "precision", "cache"), "text"),
    "bound": BoundText("compute-bound"),
    "flagged": False,
    "flags": ["noisy"],
}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """``text`` as written, ``condition`` as it is evaluated; ``select`` maps a selector to the patterns allowed."""

    number: int
    text: str
    condition: str
    names: list[str]  # the properties that it asks for
    select: dict[str, list[str]]
    sizes: list[str]  # any of them
    against: Path | None
    significant: bool
    across: list[str]
    about: str
    where: str

    @property
    def title(self) -> str:
        return f"rule {self.number}: {self.text}"

    @property
    def selection(self) -> str:
        """``kernel gemm*, size >= 4096``; ``all points``."""
        parts = [f"{name} {' or '.join(patterns)}" for name, patterns in self.select.items()]
        parts += [f"size {' or '.join(self.sizes)}"] if self.sizes else []
        return ", ".join(parts) or "all points"

    def is_for(self, point: Point) -> bool:
        chosen = all(
            any(fnmatch.fnmatchcase(SELECTORS[name](point), pattern) for pattern in patterns)
            for name, patterns in self.select.items()
        )
        return chosen and (not self.sizes or any(_has_size(point.size, text) for text in self.sizes))


def read_rules(file: Path, here: Path) -> list[Rule]:
    """Raises BadInputError naming the file, the rule and what is allowed. ``here``: where relative folders start."""
    where = f"gate={file.relative_to(here) if file.is_relative_to(here) else file}"
    content = read_yaml(file, where)
    if not isinstance(content, dict) or set(content) != {"rules"} or not isinstance(content["rules"], list):
        raise BadInputError(f"{where}: allowed: one key, rules, with a list; see python -m roofexp.gate --example")
    if not content["rules"]:
        raise BadInputError(f"{where}: no rule in it; see python -m roofexp.gate --example")
    return [
        _rule(entry, f"{where}: rule {number}", number, file, here) for number, entry in enumerate(content["rules"], 1)
    ]


def _rule(entry: Any, where: str, number: int, file: Path, here: Path) -> Rule:
    if not isinstance(entry, dict) or not isinstance(entry.get("rule"), (str, bool)):
        raise BadInputError(f"{where}: has no key rule; allowed: e.g. {{kernel: gemm, rule: fraction >= 85 %}}")
    for key in entry:
        if key not in KEYS:
            raise BadInputError(f"{where}: unknown key {key!r}; allowed: {', '.join(KEYS)}")
    text = str(entry["rule"])
    condition = PERCENT.sub(r"(\1 / 100)", text)
    names = _names(condition, text, where)
    against = _against(entry.get("against"), names, file, here, where)
    return Rule(
        number=number,
        text=text,
        condition=condition,
        names=names,
        select={name: _texts(entry[name]) for name in SELECTORS if name in entry},
        sizes=_sizes(entry.get("size"), where),
        against=against,
        significant=_flag(entry.get("significant", True), where),
        across=_across(entry.get("across"), where),
        about=str(entry.get("about", "")),
        where=where,
    )


def _names(condition: str, text: str, where: str) -> list[str]:
    """The properties that a condition asks for, once it has been tried."""
    try:
        tree = ast.parse(condition, mode="eval")
    except SyntaxError as error:
        raise BadInputError(f"{where}: {text!r} is not a condition ({error.msg})") from error
    if any(isinstance(node, ast.Attribute) for node in ast.walk(tree)):
        raise BadInputError(f"{where}: {text!r} is not a condition (properties have no parts)")
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    used = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in called]
    allowed = {**PROPERTIES, **CHANGES}
    for name in used:
        if name not in allowed and name not in WORDS:
            raise BadInputError(f"{where}: unknown name {name!r} in {text!r}; allowed: {', '.join(allowed)}")
    names = list(dict.fromkeys(name for name in used if name in allowed))
    if not names:
        raise BadInputError(f"{where}: {text!r} asks nothing of a point; allowed: {', '.join(allowed)}")
    _holds(condition, EXAMPLES, where, text)
    return names


def holds(rule: Rule, values: dict[str, Any]) -> bool:
    return _holds(rule.condition, values, rule.where, rule.text)


def _holds(condition: str, values: dict[str, Any], where: str, text: str) -> bool:
    value = evaluate(condition, {**WORDS, **values}, where, ARITHMETIC)
    if not isinstance(value, bool):
        raise BadInputError(f"{where}: {text!r} gives {value!r}; a condition is needed, e.g. fraction >= 85 %")
    return value


def _against(value: Any, names: list[str], file: Path, here: Path, where: str) -> Path | None:
    """The folder of the sweep to compare with, seen from where the program runs, else from the gate's file."""
    asked = [name for name in names if name in CHANGES]
    if value is None:
        if asked:
            raise BadInputError(f"{where}: {asked[0]} needs against: the folder of the sweep to compare with")
        return None
    if not asked:
        raise BadInputError(f"{where}: against, but the rule asks for neither {' nor '.join(CHANGES)}")
    for folder in (here / str(value), file.parent / str(value)):
        if folder.is_dir():
            from roofexp.compare.matching import read_side

            try:
                read_side(folder)
            except BadInputError as error:
                raise BadInputError(f"{where}: against: {error}") from error
            return folder.resolve()
    raise BadInputError(f"{where}: against: {value}: no such folder; allowed: the folder of one sweep")


def _texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _sizes(value: Any, where: str) -> list[str]:
    texts = [] if value is None else _texts(value)
    for text in texts:
        if not (COMPARED.fullmatch(text) or RANGE.fullmatch(text) or re.fullmatch(r"\d[\d_]*", text)):
            raise BadInputError(f"{where}: size: {text!r}; allowed: 4096, '>= 4096', 256..4096, or a list of them")
    return texts


def _has_size(size: int, text: str) -> bool:
    compared, within = COMPARED.fullmatch(text), RANGE.fullmatch(text)
    if compared:
        other = int(compared[2])
        return {
            "<=": size <= other,
            ">=": size >= other,
            "==": size == other,
            "!=": size != other,
            "<": size < other,
            ">": size > other,
        }[compared[1]]
    return int(within[1]) <= size <= int(within[2]) if within else size == int(text)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise BadInputError(f"{where}: significant: {value!r}; allowed: true, false")
    return value


def _across(value: Any, where: str) -> list[str]:
    from roofexp.compare.matching import ACROSS

    names = [] if value is None else _texts(value)
    for name in names:
        if name not in ACROSS:
            raise BadInputError(f"{where}: across: {name!r}; allowed: {', '.join(ACROSS)}")
    return names
