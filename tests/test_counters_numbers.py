"""A number must never be read as another one: ``1,250,000.50`` is neither 1.25 nor an error."""

from __future__ import annotations

import pytest

from roofexp.ncu.numbers import (
    AmbiguousNumberError,
    Convention,
    UnknownUnitError,
    choose_convention,
    convert,
    parse_number,
)

POINT, COMMA = Convention("."), Convention(",")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,309,471,763.30", 1309471763.30),
        ("1,250,000.50", 1250000.5),
        ("152192", 152192),
        ("768683274.02", 768683274.02),
        ("805,306,368", 805306368),
        ("1'234'567.8", 1234567.8),
        ("0.00", 0.0),
        ("-3", -3),
        ("1.5e+09", 1.5e9),
        ("12,345 (12,000; 345)", 12345),
    ],
)
def test_decimal_point(text: str, value: float) -> None:
    assert parse_number(text, POINT) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.234,5", 1234.5), ("805.306.368", 805306368), ("0,5", 0.5), ("250,05", 250.05), ("1\u202f234,5", 1234.5)],
)
def test_decimal_comma(text: str, value: float) -> None:
    assert parse_number(text, COMMA) == value


@pytest.mark.parametrize("text", ["n/a", "N/A", "nan", "-nan", "-nan(ind)", "", "  ", "inf"])
def test_missing_is_none_and_never_zero(text: str) -> None:
    assert parse_number(text, POINT) is None


@pytest.mark.parametrize("text", ["0,5", "1,23", "12,34,5", "(256, 1, 1)", "PolicySpread", "1.2.3"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        parse_number(text, POINT)


@pytest.mark.parametrize(
    ("tokens", "decimal"),
    [
        (["250,000", "1,234.5"], "."),
        (["250.000", "1.234,5"], ","),
        (["250.000", "0,5"], ","),
        (["805.306.368", "1.234"], ","),
        (["1,234", "67,108,864"], "."),
        (["16", "n/a"], "."),
    ],
)
def test_one_certain_number_decides_for_the_file(tokens: list[str], decimal: str) -> None:
    chosen = choose_convention(tokens)
    assert (chosen.decimal, chosen.note) == (decimal, None)


def test_a_comma_that_may_group_is_read_as_ncu_writes_it_and_said() -> None:
    chosen = choose_convention(["1,234", "7"])
    assert chosen.decimal == "."
    assert "group thousands (1234)" in (chosen.note or "")


@pytest.mark.parametrize("tokens", [["1.234", "7"], ["786.432", "204.800", "65.536"], ["1,234", "5.678"]])
def test_a_point_that_may_group_is_asked_about(tokens: list[str]) -> None:
    with pytest.raises(AmbiguousNumberError):
        choose_convention(tokens)


@pytest.mark.parametrize(
    ("cells", "decimal"),
    [(["900", "1,000", "1,100"], "."), (["900", "1.000", "1.100"], ",")],
)
def test_an_average_lies_between_its_minimum_and_maximum(cells: list[str], decimal: str) -> None:
    chosen = choose_convention(cells, [cells])
    assert chosen.decimal == decimal


def test_a_file_in_two_conventions_says_what_it_left_out() -> None:
    chosen = choose_convention(["1,234.5", "2,345.6", "1.234,5"])
    assert chosen.decimal == "."
    assert "1.234,5" in (chosen.note or "")


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (32.77, "Kbyte", (32770.0, "byte")),  # ncu's K is 1000: 32768 byte is printed so
        (805.31, "Mbyte", (805310000.0, "byte")),
        (3.22, "Gbyte", (3.22e9, "byte")),
        (250000, "nsecond", (0.00025, "s")),
        (250000, "ns", (0.00025, "s")),
        (250.05, "usecond", (0.00025005, "s")),
        (250.05, "us", (0.00025005, "s")),
        (1.02, "msecond", (0.00102, "s")),
        (1.68, "Ghz", (1.68e9, "Hz")),
        (3201, "Mhz", (3.201e9, "Hz")),
        (1.5, "cycle/nsecond", (1.5e9, "Hz")),
        (1250000500, "cycle/second", (1250000500, "Hz")),
        (3.35, "Tbyte/second", (3.35e12, "byte/s")),
        (1.5, "Kbyte/block", (1500.0, "byte/block")),
        (16, "register/thread", (16, "register/thread")),
        (9, "pass", (9, "pass")),
        (67108864, "inst", (67108864, "inst")),
        (71.2, "%", (71.2, "%")),
        (5, "", (5, "")),
        (2, "MiB", (2097152, "byte")),
    ],
)
def test_units_become_si(value: float, unit: str, expected: tuple[float, str]) -> None:
    assert convert(value, unit) == expected


@pytest.mark.parametrize("unit", ["furlong", "Xbyte", "byte/furlong", "mbyte"])
def test_unknown_units_are_refused(unit: str) -> None:
    with pytest.raises(UnknownUnitError):
        convert(1, unit)
