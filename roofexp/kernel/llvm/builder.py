"""A worker written in LLVM's instructions, compiled in milliseconds and run on every thread at once.

What a roof executes must be certain: no optimiser stands between these instructions and the processor, only the code
generator. The parallel region is numba's, the one that every other CPU kernel is launched through.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import get_num_threads, njit, prange, types
from numba.extending import intrinsic

from roofexp.errors import SkippedError

I32, I64 = ir.IntType(32), ir.IntType(64)
WORDS = 16  # of 64 bits, that a launch can hand to its workers
Values = list[ir.Value]
Emit = Callable[[ir.IRBuilder, ir.Value, "Arguments"], None]


def host_vector_bytes() -> int:
    """Bytes of the widest vector register of this CPU that has fused multiply-add.

    Raises SkippedError on an x86-64 without it: every loop here is written for it.
    """
    if host_has("avx512f"):
        return 64
    if not llvm.get_process_triple().startswith("x86"):
        return 16
    if not host_has("fma"):
        raise SkippedError("this CPU has no fused multiply-add")
    return 32


def host_has(feature: str) -> bool:
    """Whether this CPU has a feature, by LLVM's name of it."""
    return bool(llvm.get_host_cpu_features().get(feature, False))


@dataclass(frozen=True)
class Vector:
    """``lanes`` numbers of one type, and how to move them; one lane is a plain number."""

    dtype: np.dtype[Any]
    lanes: int

    @classmethod
    def widest(cls, dtype: np.dtype[Any], vector_bytes: int = 0) -> Vector:
        """As wide as the CPU allows unless ``vector_bytes`` says otherwise."""
        return cls(dtype, (vector_bytes or host_vector_bytes()) // dtype.itemsize)

    @property
    def registers(self) -> int:
        """Vector registers that the CPU has."""
        return 16 if llvm.get_process_triple().startswith("x86") and not host_has("avx512f") else 32

    @property
    def scalar(self) -> Vector:
        return Vector(self.dtype, 1)

    @property
    def bytes(self) -> int:
        return self.lanes * self.dtype.itemsize

    @property
    def element(self) -> ir.Type:
        return ir.DoubleType() if self.dtype.itemsize == 8 else ir.FloatType()

    @property
    def type(self) -> ir.Type:
        return self.element if self.lanes == 1 else ir.VectorType(self.element, self.lanes)

    def constant(self, value: float) -> ir.Value:
        return ir.Constant(self.type, value if self.lanes == 1 else [value] * self.lanes)

    def splat(self, builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
        """A plain number in every lane."""
        if self.lanes == 1:
            return number
        first = builder.insert_element(ir.Constant(self.type, ir.Undefined), number, ir.Constant(I32, 0))
        return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes))

    def numbers(self, builder: ir.IRBuilder, value: ir.Value) -> Values:
        """The lanes as plain numbers."""
        if self.lanes == 1:
            return [value]
        return [builder.extract_element(value, ir.Constant(I32, lane)) for lane in range(self.lanes)]

    def fma(self, builder: ir.IRBuilder, x: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """x a + b, rounded once."""
        bits = 8 * self.dtype.itemsize
        name = f"llvm.fma.f{bits}" if self.lanes == 1 else f"llvm.fma.v{self.lanes}f{bits}"
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(self.type, [self.type] * 3), name)
        return builder.call(function, [x, a, b])

    def load(self, builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
        """From the address of any element: the operands of a kernel need not be aligned alike."""
        return builder.load(builder.inttoptr(address, self.type.as_pointer()), align=self.dtype.itemsize)

    def store(self, builder: ir.IRBuilder, value: ir.Value, address: ir.Value, nontemporal: bool = False) -> None:
        """``nontemporal`` passes the caches by; the address must then be a multiple of the vector's bytes."""
        align = self.bytes if nontemporal else self.dtype.itemsize
        stored = builder.store(value, builder.inttoptr(address, self.type.as_pointer()), align=align)
        if nontemporal:
            stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))


@dataclass(frozen=True)
class Arguments:
    """The words of a launch, as a worker reads them."""

    builder: ir.IRBuilder
    address: ir.Value

    def integer(self, index: int) -> ir.Value:
        word = self.builder.add(self.address, ir.Constant(I64, 8 * index))
        return self.builder.load(self.builder.inttoptr(word, I64.as_pointer()), align=8)

    def number(self, index: int, vector: Vector) -> ir.Value:
        """A floating-point word, which travels as a double, in every lane of ``vector``."""
        number = self.builder.bitcast(self.integer(index), ir.DoubleType())
        if vector.dtype.itemsize == 4:
            number = self.builder.fptrunc(number, ir.FloatType())
        return vector.splat(self.builder, number)


def counted_loop(
    builder: ir.IRBuilder,
    start: ir.Value,
    stop: ir.Value,
    step: int,
    carried: Values,
    body: Callable[[ir.Value, Values], Values],
) -> Values:
    """``for index in range(start, stop, step)``: ``body`` takes the index and the carried values, and gives the new
    values. The carried values after the last pass come back."""
    before = builder.block
    test, inside, after = (builder.append_basic_block(name) for name in ("test", "inside", "after"))
    builder.branch(test)
    builder.position_at_end(test)
    index, *values = [builder.phi(value.type) for value in (start, *carried)]
    builder.cbranch(builder.icmp_signed("<", index, stop), inside, after)
    builder.position_at_end(inside)
    new = body(index, values)
    new = [builder.add(index, ir.Constant(I64, step)), *new]
    for phi, first, following in zip([index, *values], [start, *carried], new, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(following, builder.block)
    builder.branch(test)
    builder.position_at_end(after)
    return values


class ThreadCode:
    """Machine code of one function ``worker(thread, arguments)``. ``emit`` writes its instructions.

    ``cpu`` and ``triple`` name another processor than this one, to look at its code; it cannot be run then.
    """

    def __init__(self, emit: Emit, cpu: str | None = None, triple: str | None = None) -> None:
        module = ir.Module()
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64, I64]), "worker")
        builder = ir.IRBuilder(function.append_basic_block())
        emit(builder, function.args[0], Arguments(builder, function.args[1]))
        builder.ret_void()
        self.text = str(module)
        self._machine = _target_machine(cpu, triple)

    @functools.cached_property
    def address(self) -> int:
        self._engine = llvm.create_mcjit_compiler(self._parsed(), self._machine)  # kept: it owns the code
        self._engine.finalize_object()
        address: int = self._engine.get_function_address("worker")
        return address

    @property
    def assembly(self) -> str:
        """What the processor executes, as text."""
        text: str = self._machine.emit_assembly(self._parsed())
        return text

    def _parsed(self) -> Any:
        module = llvm.parse_assembly(self.text)
        module.triple = self._machine.triple
        module.data_layout = str(self._machine.target_data)
        module.verify()
        return module


def _target_machine(cpu: str | None, triple: str | None) -> Any:
    if cpu and triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3)
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True)


class Team:
    """One worker on ``threads`` threads (0: all that numba has). One thread alone is the caller, without a parallel
    region."""

    def __init__(self, emit: Emit, threads: int = 0) -> None:
        self.code = ThreadCode(emit)
        self.threads = threads or get_num_threads()
        self._words = np.zeros(WORDS, np.int64)
        self._numbers = self._words.view(np.float64)
        self._words_address = _address_of(self._words)
        self._alone = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(self.code.address)

    def run(self, *arguments: Any) -> None:
        """Word 0 is the number of threads, then ``arguments``: arrays as addresses, whole numbers, and
        floating-point numbers as doubles."""
        words = self._words
        words[0] = self.threads
        for index, argument in enumerate(arguments, 1):
            if isinstance(argument, np.ndarray):
                words[index] = _address_of(argument)
            elif isinstance(argument, int):
                words[index] = argument
            else:
                self._numbers[index] = argument
        if self.threads == 1:
            self._alone(0, self._words_address)
        else:
            run_team(self.code.address, words, self.threads)


def _address_of(array: Any) -> int:
    """Of the first element of a contiguous, writable NumPy array; four times as fast as asking NumPy for it."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array))


@intrinsic  # type: ignore[untyped-decorator]
def _call(typing_context: Any, worker: Any, thread: Any, arguments: Any) -> Any:
    def emit(context: Any, builder: ir.IRBuilder, signature: Any, values: Values) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [I64, I64])
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


def _run_team(worker: int, words: Any, threads: int) -> None:
    for thread in prange(threads):
        _call(worker, thread, words.ctypes.data)


run_team = njit(parallel=True, nogil=True, cache=True)(_run_team)
