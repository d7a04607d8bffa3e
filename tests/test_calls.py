"""Library calls from YAML: exactly the call that is written, and nothing else."""

from __future__ import annotations

import numpy
import pytest

from roofexp.devices.calls import compile_call
from roofexp.errors import BadInputError


def test_the_call_is_made_at_every_launch() -> None:
    a, b, c = numpy.ones((2, 3)), numpy.ones((3, 2)), numpy.zeros((2, 2))
    launch = compile_call("matmul(a, b, out=c)", numpy, {"a": a, "b": b, "c": c}, "here")
    launch()
    assert (c == 3).all()
    a *= 2
    launch()
    assert (c == 6).all()


def test_nested_calls_and_literals() -> None:
    x, y = numpy.full(4, 4.0), numpy.zeros(4)
    compile_call("add(sqrt(x), -1.5, out=y)", numpy, {"x": x, "y": y}, "here")()
    assert (y == 0.5).all()
    assert compile_call("linalg.norm(x, ord=None)", numpy, {"x": x}, "here")() == 8.0


@pytest.mark.parametrize(
    ("call", "telling"),
    [
        ("matmul(a, z)", "unknown name 'z'"),
        ("nope(a)", "no function 'nope'"),
        ("a + a", "is not a call"),
        ("matmul(a", "is not a call"),
        ("__builtins__.eval(a)", "no function"),
        ("sum(a, *a)", "neither a name"),
        ("sum(**a)", r"\*\*"),
        ("sum([i for i in a])", "neither a name"),
    ],
)
def test_anything_else_is_refused(call: str, telling: str) -> None:
    with pytest.raises(BadInputError, match=telling):
        compile_call(call, numpy, {"a": numpy.ones(2)}, "here")
