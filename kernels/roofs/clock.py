"""A chain of dependent integer operations, one cycle each: its time is a count of core cycles."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir

from roofexp.kernel.llvm.builder import I64, Arguments, Team, Values, counted_loop

PAIRS = 64  # of an addition and an exclusive or, per pass of the loop


def emit_chain(builder: ir.IRBuilder, thread: ir.Value, arguments: Arguments) -> None:
    """The two constants are known at run time only, and sit in registers: some processors take no time at all for
    additions of a number that stands in the instruction."""
    results, passes, added, mixed = (arguments.integer(index) for index in range(1, 5))

    def body(index: ir.Value, carried: Values) -> Values:
        (value,) = carried
        for _ in range(PAIRS):
            value = builder.xor(builder.add(value, added), mixed)
        return [value]

    (value,) = counted_loop(builder, ir.Constant(I64, 0), passes, 1, [thread], body)
    where = builder.add(results, builder.mul(thread, ir.Constant(I64, 8)))
    builder.store(value, builder.inttoptr(where, I64.as_pointer()), align=8)


@functools.cache
def _team(threads: int) -> Team:
    return Team(emit_chain, threads)


def cycles_chain_team(cycles: int, result: np.ndarray[Any, Any]) -> None:
    """One chain of ``cycles`` cycles on each of ``result.size`` threads at once. ``result`` (uint64) takes what the
    chains computed, so that nothing can be left out. ``cycles`` is cut to a multiple of 128."""
    _team(result.size).run(result, cycles // (2 * PAIRS), 0x9E3779B97F4A7C15 - 2**64, 0x5851F42D4C957F2D)


def cycles_chain(cycles: int) -> int:
    """The same on one thread; gives what the chain computed."""
    result = np.zeros(1, np.uint64)
    cycles_chain_team(cycles, result)
    return int(result[0])
