"""Formulas are arithmetic only, and an error names the place and the unknown name."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

from roofexp.errors import BadInputError, SkippedError
from roofexp.kernel import build_kernel, reference_functions
from roofexp.kernel.formula import evaluate, evaluate_count


def test_arithmetic() -> None:
    assert evaluate("2*m*n*k", {"m": 2, "n": 3, "k": 4}, "here") == 48
    assert evaluate("ceil(n / block)", {"n": 1000, "block": 256}, "here") == 4
    assert evaluate(7, {}, "here") == 7


@pytest.mark.parametrize(
    ("formula", "telling"),
    [
        ("2*q", "unknown name 'q'"),
        ("open('x')", "unknown function 'open'"),
        ("n.__class__", "is not a formula"),
        ("n.real", "attributes and methods are not allowed"),
        ("n.tofile('x')", "attributes and methods are not allowed"),
        ("[i.tofile('x') for i in [n]]", "attributes and methods are not allowed"),
        ("(n).to_bytes(9, 'big')", "attributes and methods are not allowed"),
        ("f'{n:999999999d}'", "is not a formula"),
        ("'%999999999d' % n", "cannot be computed"),
        ("2*", "is not a formula"),
        ("n/0", "cannot be computed"),
        ("__import__('os')", "unknown function"),
        ("n + 'a'", "cannot be computed"),
        ("[n][3]", "cannot be computed (IndexError"),
        ("{'a': n}['b']", "cannot be computed (KeyError"),
        ("n[0]", "cannot be computed (TypeError"),
        ("ceil(n * 1e400)", "allowed: arithmetic on n"),
    ],
)
def test_an_error_says_where_and_what(formula: str, telling: str) -> None:
    with pytest.raises(BadInputError, match=r"file\.yaml: work\.flops") as caught:
        evaluate(formula, {"n": 4}, "file.yaml: work.flops")
    assert telling in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("formula", ["n/3", "0 - n", "n*1e400", "'four'"])
def test_a_count_is_a_whole_number_that_is_not_negative(formula: str) -> None:
    with pytest.raises(BadInputError):
        evaluate_count(formula, {"n": 4}, "here")


def test_a_precision_that_the_kernel_lacks_skips_the_point_and_says_what_is_allowed() -> None:
    with pytest.raises(SkippedError, match="precision=int8: kernel 'sums' is written for fp64, fp32"):
        build_kernel({"name": "sums", "precisions": ["fp64", "fp32"]}, {"name": "int8"}, 8, "normal")


@pytest.mark.parametrize("formula", ["2*x if x.tofile('PATH') is None else x", "x.astype('u1').tofile('PATH')", "x.T"])
def test_a_reference_calls_no_method_of_an_array(formula: str, tmp_path: Path) -> None:
    file = tmp_path / "written"
    with pytest.raises(BadInputError, match="attributes and methods are not allowed; functions: abs, "):
        evaluate(formula.replace("PATH", str(file)), {"x": numpy.ones(4)}, "here", reference_functions(numpy))
    assert not file.exists()
