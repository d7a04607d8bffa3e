"""The spellings that ncu and nsys have of one kernel have one short name."""

from __future__ import annotations

import pytest

from roofexp.ncu.launch import short_name


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
