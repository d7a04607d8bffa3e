"""Units as ncu prints them, brought to SI: seconds, hertz, bytes; counts keep their noun.

ncu scales by powers of 1000 (32768 byte is printed as 32.77 Kbyte); KiB, MiB and GiB are read as powers of 1024 should
another tool have written them.
"""

from __future__ import annotations

import functools
from fractions import Fraction

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
