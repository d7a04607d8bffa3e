"""Two tools' names for one kernel are joined, or refused with both spellings; never by position."""

from __future__ import annotations

import csv

import pytest
from ncu_text import DATA

from roofexp.errors import BadInputError
from roofexp.ncu.launch import match_names, short_name
from roofexp.ncu.report import read_report_file


@pytest.mark.parametrize(
    "name",
    [
        "saxpyKernel",
        "unnamed>::saxpyKernel(float, const float *, float *, unsigned long)",
        "bench::demo::<unnamed>::saxpyKernel(float, const float *, float *, unsigned long)",
        "(anonymous namespace)::saxpyKernel(float)",
        "void a::b<int>::saxpyKernel<float, (int)4>(T1 *)",
        "saxpyKernel [clone]",
    ],
)
def test_short_name(name: str) -> None:
    assert short_name(name) == "saxpyKernel"


def test_short_name_of_operators_in_templates() -> None:
    assert short_name('void map<&units::operator""_ms>(float *, int)') == "map"


def test_ncu_and_nsys_spellings_are_joined() -> None:
    """NCU-15."""
    launches = read_report_file(DATA / "ncu15a_ncu_names.csv")
    with (DATA / "ncu15b_nsys_kern_sum.csv").open() as file:
        rows = {row["Name"]: row for row in csv.DictReader(file)}
    pairs = match_names([launch.kernel for launch in launches], rows)
    (launch,) = launches
    row = rows[pairs[launch.kernel]]
    assert short_name(launch.kernel) == "saxpyKernel"
    assert (int(row["Instances"]), float(row["Avg (ns)"])) == (60, 20500.0)


def test_no_partner_or_two_are_refused_with_the_spellings() -> None:
    with pytest.raises(BadInputError, match=r"'a::k\(int\)'.*no kernel.*'other'"):
        match_names(["a::k(int)"], ["other"])
    with pytest.raises(BadInputError, match=r"several.*'x::k'.*'y::k'"):
        match_names(["k"], ["x::k", "y::k"])
    assert match_names(["x::k"], ["x::k", "y::k"]) == {"x::k": "x::k"}
