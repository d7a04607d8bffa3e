"""The arithmetic roofs: independent chains of multiply-adds in vector registers, without memory.

A chain waits for its own last result, so it takes latency x units chains to keep every unit busy (Little's law);
with one chain the same code shows the ceiling without unrolling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from roofexp.errors import BadInputError
from roofexp.kernel.llvm.builder import I64, Arguments, Emit, Team, Values, Vector, counted_loop
from roofexp.kernel.llvm.streams import element_address, share

STEPS = 8  # of every chain per pass of the loop, so that its counter costs nothing
Launch = Callable[..., None]
Step = Callable[[Vector, ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]


def build(dtype: np.dtype[Any], params: dict[str, Any], threads: int) -> Launch:
    """x = x a + b1, x = x a + b2, ... by fused multiply-add. The two constants keep the values moving, so that the
    units toggle as with real data."""
    vector = Vector.widest(dtype, params["vector_bytes"])
    chains = params["chains"] or vector.registers * 5 // 8  # 10 or 20: the constants and some room beside them
    return _launch(chains_of(vector, chains, params["block"], Vector.fma), params["threads"] or threads)


def build_mul_add(dtype: np.dtype[Any], params: dict[str, Any], threads: int) -> Launch:
    """The same work as a multiplication and an addition: two instructions, and twice the latency."""
    vector = Vector.widest(dtype, params["vector_bytes"])
    chains = params["chains"] or vector.registers * 6 // 8
    return _launch(chains_of(vector, chains, params["block"], mul_add), params["threads"] or threads)


def mul_add(vector: Vector, builder: ir.IRBuilder, x: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.fadd(builder.fmul(x, a), b)


def chains_of(vector: Vector, chains: int, block: int, step: Step) -> Emit:
    """A worker that makes ``block`` multiply-adds for each element of its share of the output, and writes the mean
    over chains and lanes there. Words: elements, address of the output, a, b1, b2."""
    whole = chains * vector.lanes * STEPS
    if chains < 1 or block % whole:
        raise BadInputError(f"params.block={block}: chains={chains} on this CPU needs a multiple of {whole}")

    def emit(builder: ir.IRBuilder, thread: ir.Value, words: Arguments) -> None:
        threads, elements, y = (words.integer(index) for index in range(3))
        a, *b = (words.number(index, vector) for index in (3, 4, 5))

        def steps(index: ir.Value, x: Values) -> Values:
            for number in range(STEPS):
                x = [step(vector, builder, value, a, b[number % 2]) for value in x]
            return x

        def element(index: ir.Value, carried: Values) -> Values:
            seeds = [vector.constant(1.0 + chain / 8) for chain in range(chains)]  # equal chains could be merged
            x = counted_loop(builder, ir.Constant(I64, 0), ir.Constant(I64, block // whole), 1, seeds, steps)
            mean = _mean(builder, vector, x)
            vector.scalar.store(builder, mean, element_address(builder, y, index, vector.dtype.itemsize))
            return carried

        begin, end = share(builder, thread, threads, elements)
        counted_loop(builder, begin, end, 1, [], element)

    return emit


def _mean(builder: ir.IRBuilder, vector: Vector, values: Values) -> ir.Value:
    total, *others = values
    for value in others:
        total = builder.fadd(total, value)
    number, *others = vector.numbers(builder, total)
    for other in others:
        number = builder.fadd(number, other)
    return builder.fmul(number, vector.scalar.constant(1.0 / (len(values) * vector.lanes)))


def _launch(emit: Emit, threads: int) -> Launch:
    team = Team(emit, threads)
    return lambda y, a, b1, b2: team.run(y.size, y, a, b1, b2)
