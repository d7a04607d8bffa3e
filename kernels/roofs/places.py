"""The logical CPU on which each thread of the team stands, asked after it has worked for a while."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir

from roofexp.kernel.llvm.builder import I64, Arguments, Team, Values, counted_loop

PASSES = 100_000  # some 0.1 ms: threads that were started on one core have been moved apart by then


def emit_place(builder: ir.IRBuilder, thread: ir.Value, arguments: Arguments) -> None:
    """The loop's result is added as a zero that the compiler does not see, so that it stands before the question."""
    results, mixed = arguments.integer(1), arguments.integer(2)

    def body(index: ir.Value, carried: Values) -> Values:
        return [builder.xor(builder.add(carried[0], mixed), mixed)]

    (worked,) = counted_loop(builder, ir.Constant(I64, 0), ir.Constant(I64, PASSES), 1, [thread], body)
    ask = ir.Function(builder.module, ir.FunctionType(ir.IntType(32), []), "sched_getcpu")
    cpu = builder.sext(builder.call(ask, []), I64)
    where = builder.add(results, builder.mul(thread, ir.Constant(I64, 16)))
    for offset, value in ((0, cpu), (8, worked)):
        address = builder.add(where, ir.Constant(I64, offset))
        builder.store(value, builder.inttoptr(address, I64.as_pointer()), align=8)


@functools.cache
def _team(threads: int) -> Team:
    return Team(emit_place, threads)


def places(threads: int) -> list[int]:
    """One number per thread."""
    result: np.ndarray[Any, Any] = np.full((threads, 2), -1, np.int64)
    _team(threads).run(result, 1)
    return [int(cpu) for cpu in result[:, 0]]
