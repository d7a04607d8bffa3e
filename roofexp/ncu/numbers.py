"""Numbers and units as ncu prints them: grouped or not, with a decimal point or comma, scaled or in base units.

The rule, decided once per file. A number that can be read in one way only is evidence: ``1,309,471.30`` and ``0.5``
for the decimal point, ``1.234,5`` and ``0,5`` for the decimal comma; so is a summary whose average would lie outside
its minimum and maximum. The mark with more evidence is used for the whole file. Without any, ``1,234`` is read as ncu
writes it in English (a comma groups thousands, a decimal has two digits) with a note; ``1.234`` is asked about, because
it is a decimal in English and a grouped number elsewhere.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction

import msgspec

MISSING = frozenset(
    {"", "-", "n/a", "na", "nan", "+nan", "-nan", "nan(ind)", "-nan(ind)", "inf", "+inf", "-inf", "none", "null"}
)

_GROUPS = "'\u2019 \u00a0\u202f_"  # apostrophes, the spaces of French and Swiss locales, underscore
_INSTANCES = re.compile(r"^(\S+) \(.*\)$")  # "12 (3; 4; 5)": the value of the launch, then of each instance
_AMBIGUOUS = re.compile(r"^[+-]?[1-9]\d{0,2}(?P<mark>[.,])\d{3}$")


class Convention(msgspec.Struct, frozen=True):
    """``decimal`` is the point or the comma; ``note`` says what a reader must know about the choice."""

    decimal: str
    note: str | None = None


class AmbiguousNumberError(ValueError):
    """A number that can be read in two ways; the message is the number as it is written."""


def choose_convention(tokens: Iterable[str], ranges: Iterable[Sequence[str]] = ()) -> Convention:
    """The way in which the numbers of one file are written; ``ranges`` are minimum, average and maximum of summaries.

    Raises AmbiguousNumberError.
    """
    votes = {".": 0, ",": 0}
    examples: dict[str, str] = {}
    ambiguous: dict[str, str] = {}
    for token in tokens:
        decimal = _evidence(token)
        if decimal is not None:
            votes[decimal] += 1
            examples.setdefault(decimal, token.strip())
        elif match := _AMBIGUOUS.match(token.strip()):
            ambiguous.setdefault(match["mark"], token.strip())
    for cells in ranges if ambiguous else ():
        ordered = [mark for mark in ".," if _in_order(cells, mark)]
        if len(ordered) == 1:
            votes[ordered[0]] += 1
            examples.setdefault(ordered[0], " to ".join(cells))
    if votes["."] and votes[","]:
        winner = "," if votes[","] > votes["."] else "."
        loser = "." if winner == "," else ","
        return Convention(winner, f"numbers are written in two ways; {examples[loser]!r} and its like are left out")
    if votes[","]:
        return Convention(",")
    if not ambiguous or votes["."]:
        return Convention(".")
    if "." in ambiguous:
        raise AmbiguousNumberError(ambiguous["."])
    number = ambiguous[","]
    grouped = parse_number(number, Convention("."))
    return Convention(".", f"the comma in {number!r} is taken to group thousands ({grouped}), not for a decimal mark")


def _in_order(cells: Sequence[str], mark: str) -> bool:
    try:
        low, middle, high = (parse_number(cell, Convention(mark)) for cell in cells)
    except ValueError:
        return False
    return low is not None and middle is not None and high is not None and low <= middle <= high


def parse_number(text: str, convention: Convention) -> float | None:
    """The number, an int where it is written as one; None for what ncu prints when it has no value.

    Raises ValueError for text that is no number in this convention.
    """
    token = text.strip()
    if token.isdigit():
        return int(token)
    token = _bare(token)
    if token.lower() in MISSING:
        return None
    if not _pattern(convention.decimal).match(token):
        raise ValueError(f"{text!r} is not a number")
    plain = token.translate(_ungroup(convention.decimal)).replace(convention.decimal, ".")
    return int(plain) if plain.lstrip("+-").isdigit() else float(plain)


@functools.cache
def _ungroup(decimal: str) -> dict[int, None]:
    return dict.fromkeys(map(ord, _other(decimal) + _GROUPS))


def _bare(text: str) -> str:
    token = text.strip()
    instances = _INSTANCES.match(token) if " (" in token else None
    return instances.group(1) if instances else token


def _other(decimal: str) -> str:
    return "," if decimal == "." else "."


@functools.cache
def _pattern(decimal: str) -> re.Pattern[str]:
    group = f"[{re.escape(_other(decimal) + _GROUPS)}]"
    grouped = rf"[1-9]\d{{0,2}}(?:{group}\d{{2,3}})*{group}\d{{3}}"  # groups of two are Indian
    fraction = rf"(?:{re.escape(decimal)}\d*)?"
    return re.compile(rf"^[+-]?(?:{grouped}|\d+){fraction}(?:[eE][+-]?\d+)?$")


def _evidence(text: str) -> str | None:
    """The decimal sign that this token proves, or None when it proves nothing."""
    token = _bare(text)
    if "." not in token and "," not in token:
        return None
    readable = [sign for sign in ".," if _pattern(sign).match(token)]
    return readable[0] if len(readable) == 1 else None


# fractions, so that 250000 ns is 0.00025 s to the last bit
PREFIXES = {letter: Fraction(1000) ** power for letter, power in zip("kKMGTPE", (1, 1, 2, 3, 4, 5, 6), strict=True)}
SMALL = {letter: Fraction(1, 1000**power) for letter, power in zip("muµnp", (1, 2, 2, 3, 4), strict=True)}
BINARY = {f"{letter}i": Fraction(1024) ** power for letter, power in zip("KMGT", (1, 2, 3, 4), strict=True)}
ONE = Fraction(1)
_BYTES = {"byte": "byte", "bytes": "byte", "B": "byte"}
_SECONDS = {"s": "s", "sec": "s", "second": "s", "seconds": "s"}
_HERTZ = {"hz": "Hz", "Hz": "Hz", "HZ": "Hz"}

_COUNTS = {
    noun: noun
    for noun in (
        "access",
        "bit",
        "block",
        "cluster",
        "cycle",
        "edge",
        "flop",
        "inst",
        "lane",
        "node",
        "op",
        "page",
        "pass",
        "quad",
        "query",
        "register",
        "request",
        "sample",
        "sector",
        "SM",
        "thread",
        "transaction",
        "warp",
        "wavefront",
    )
} | {"instruction": "inst", "instructions": "inst", "cycles": "cycle", "sectors": "sector", "threads": "thread"}

_SHARES = {"%": "%", "pct": "%", "percent": "%", "": ""}


class UnknownUnitError(ValueError):
    """A unit that this program cannot bring to SI."""


def convert(value: float, unit: str) -> tuple[float, str]:
    """The value in SI and the SI unit; whole numbers stay whole. Raises UnknownUnitError."""
    factor, base = to_base(unit)
    if factor == 1:
        return value, base
    if isinstance(value, int):
        return (value * factor.numerator if factor.denominator == 1 else value / factor.denominator), base
    return float(Fraction(str(value)) * factor), base  # the decimal that was printed, not its binary neighbour


@functools.cache
def to_base(unit: str) -> tuple[Fraction, str]:
    """The factor to SI and the SI unit: "Kbyte" gives (1000, "byte"), "cycle/nsecond" gives (10^9, "Hz").

    Raises UnknownUnitError.
    """
    over, _, under = unit.strip().partition("/")
    factor, base = _simple(over.strip())
    if not under:
        return factor, base
    under_factor, under_base = _simple(under.strip())
    if under_base == "s" and base == "cycle":
        return factor / under_factor, "Hz"
    return factor / under_factor, f"{base}/{under_base}"


def _simple(unit: str) -> tuple[Fraction, str]:
    """A unit without a slash: a whole noun first, so that "pass" is not a pico-something."""
    for nouns in (_SHARES, _COUNTS, _BYTES, _SECONDS, _HERTZ):
        if unit in nouns:
            return ONE, nouns[unit]
    if unit[1:] in _SECONDS and unit[0] in SMALL:
        return SMALL[unit[0]], "s"
    if unit[1:].lower() == "hz" and unit[0].upper() in PREFIXES:  # ncu writes Ghz and Mhz
        return PREFIXES[unit[0].upper()], "Hz"
    if unit[2:] in _BYTES and unit[:2] in BINARY:
        return BINARY[unit[:2]], "byte"
    for nouns in (_BYTES, _COUNTS):
        if unit[1:] in nouns and unit[0] in PREFIXES:
            return PREFIXES[unit[0]], nouns[unit[1:]]
    raise UnknownUnitError(unit)
