"""Library calls from YAML: exactly the call that is written, and nothing else."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

from roofexp.devices.cuda.operands import build_call
from roofexp.devices.library_call import compile_call
from roofexp.errors import BadInputError
from roofexp.kernel import build_kernel
from tests.kernel_cases import kernel_config, precision_config


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
        ("f2py.os.system('touch x')", r"no function 'f2py\.os\.system'"),
        ("ctypeslib.os.system('touch x')", "no function"),
        ("multiply(a, 2, where=equal(f2py.os.system('x'), 0))", "no function"),
        ("load('x.npy', allow_pickle=True)", "no function 'load'"),
        ("savetxt('x', a)", "no function 'savetxt'"),
        ("linalg.linalg.os.system('x')", "no function"),
        ("add.reduce.__self__(a, a)", "no function"),
        ("fft.__spec__.loader.get_data('x')", "no function"),
        ("fromfile('x')", "no function 'fromfile'"),
        ("memmap('x', mode='w+')", "no function"),
        ("add(a, f2py.os)", "no function"),
        ("squar(a)", "did you mean square"),
        ("sum(a, *a)", "neither a name"),
        ("sum(**a)", r"\*\*"),
        ("sum([i for i in a])", "neither a name"),
    ],
)
def test_anything_else_is_refused(call: str, telling: str) -> None:
    with pytest.raises(BadInputError, match=telling):
        compile_call(call, numpy, {"a": numpy.ones(2)}, "here")


class Torch:
    """As much of PyTorch as a call takes: which stream each launch went to."""

    __name__ = "torch"
    float32, int16 = "float32", "int16"

    def __init__(self) -> None:
        self.streams: list[int] = []
        self.current = 0
        matmul = types.SimpleNamespace(allow_tf32=False)
        self.backends = types.SimpleNamespace(
            cuda=types.SimpleNamespace(matmul=matmul), cudnn=types.SimpleNamespace(allow_tf32=False)
        )
        self.cuda = types.SimpleNamespace(ExternalStream=lambda address: address, stream=self.on)

    @contextlib.contextmanager
    def on(self, stream: int) -> Iterator[None]:
        self.current, before = stream, self.current
        yield
        self.current = before

    def no_grad(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def as_tensor(self, array: Any, device: str) -> Any:
        return array

    def add(self, a: Any, b: Any, out: Any) -> None:
        self.streams.append(self.current)


def test_a_call_by_pytorch_goes_to_the_stream_that_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed capture another stream is timed: a call that stayed on the old one would seem to take no time."""
    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    config, size = kernel_config("vadd", 8)
    kernel = build_kernel({**config, "torch": {"call": "add(x, y, out=z)"}}, precision_config("fp32"), size, "normal")
    watch = types.SimpleNamespace(stream=types.SimpleNamespace(ptr=1))
    operands = {operand.name: numpy.zeros(8, numpy.float32) for operand in kernel.operands}
    launch = build_call(kernel, "torch", operands, lambda: watch.stream)
    launch()
    watch.stream = types.SimpleNamespace(ptr=2)
    launch()
    assert torch.streams == [1, 2]


def test_a_changed_helper_of_a_users_kernel_gets_a_cache_of_its_own(tmp_path):
    from roofexp.devices.environment import kernel_files_hash

    helper = tmp_path / "helper.py"
    helper.write_text("FACTOR = 2\n")
    before = kernel_files_hash([tmp_path])
    helper.write_text("FACTOR = 3\n")
    assert kernel_files_hash([tmp_path]) != before
    assert kernel_files_hash([tmp_path / "absent"]) == kernel_files_hash()
