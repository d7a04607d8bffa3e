"""Passes over arrays in vectors, every thread over a slice of its own, each element once: what streams are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from roofexp.kernel.llvm.builder import I64, Arguments, Emit, Team, Values, Vector, counted_loop

READ_UNROLL = 8  # maxima that do not wait for each other: two loads per cycle, up to four cycles each
ALIGNMENT_BYTES = 64  # a cache line on x86-64 and on most arm64, and the widest vector

# index, vector, number of vectors, carried values -> new carried values
Body = Callable[[ir.Value, Vector, int, Values], Values]

# builder, vector, values loaded from each input, scalars -> values to store
Formula = Callable[[ir.IRBuilder, Vector, list[Values], Values], Values]


@dataclass(frozen=True)
class Walk:
    """The slice of one thread: single elements up to an aligned address, then ``unroll`` vectors at a time, then
    what is left. ``aligned`` is the address of the array that is aligned."""

    builder: ir.IRBuilder
    vector: Vector
    unroll: int
    begin: ir.Value
    end: ir.Value
    aligned: ir.Value

    def run(self, carried: Values, body: Body) -> Values:
        builder, itemsize, lanes = self.builder, self.vector.dtype.itemsize, self.vector.lanes
        first_address = element_address(builder, self.aligned, self.begin, itemsize)
        gap = builder.and_(builder.neg(first_address), ir.Constant(I64, ALIGNMENT_BYTES - 1))
        first = builder.add(self.begin, builder.sdiv(gap, ir.Constant(I64, itemsize)))
        first = builder.select(builder.icmp_signed("<", first, self.end), first, self.end)
        blocks = self._last(first, lanes * self.unroll)
        vectors = self._last(blocks, lanes)
        parts = [
            (self.begin, first, self.vector.scalar, 1),
            (first, blocks, self.vector, self.unroll),
            (blocks, vectors, self.vector, 1),
            (vectors, self.end, self.vector.scalar, 1),
        ]
        for start, stop, vector, count in parts:
            carried = self._part(start, stop, vector, count, carried, body)
        return carried

    def _part(self, start: ir.Value, stop: ir.Value, vector: Vector, count: int, carried: Values, body: Body) -> Values:
        step = vector.lanes * count
        return counted_loop(
            self.builder, start, stop, step, carried, lambda index, values: body(index, vector, count, values)
        )

    def _last(self, start: ir.Value, step: int) -> ir.Value:
        """The last index reached from ``start`` in whole steps."""
        left = self.builder.sub(self.end, start)
        return self.builder.sub(self.end, self.builder.srem(left, ir.Constant(I64, step)))


def element_address(builder: ir.IRBuilder, base: ir.Value, index: ir.Value, itemsize: int) -> ir.Value:
    return builder.add(base, builder.mul(index, ir.Constant(I64, itemsize)))


def share(builder: ir.IRBuilder, thread: ir.Value, threads: ir.Value, count: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Begin and end of this thread's part of ``count`` elements."""
    following = builder.add(thread, ir.Constant(I64, 1))
    begin, end = (builder.sdiv(builder.mul(number, count), threads) for number in (thread, following))
    return begin, end


def elementwise(
    dtype: np.dtype[Any],
    inputs: int,
    scalars: int,
    formula: Formula,
    unroll: int = 4,
    nontemporal: bool = False,
    vector_bytes: int = 0,
) -> Emit:
    """A worker for out[i] = formula(inputs[i], scalars). Words: elements, repeats, address of the output,
    addresses of the inputs, scalars. ``nontemporal`` stores do not read the output's lines first."""

    def emit(builder: ir.IRBuilder, thread: ir.Value, words: Arguments) -> None:
        vector = Vector.widest(dtype, vector_bytes)
        threads, count, repeats, out, *sources = (words.integer(index) for index in range(4 + inputs))
        begin, end = share(builder, thread, threads, count)
        walk = Walk(builder, vector, unroll, begin, end, aligned=out)

        def body(index: ir.Value, part: Vector, vectors: int, carried: Values) -> Values:
            numbers = [words.number(4 + inputs + scalar, part) for scalar in range(scalars)]
            offsets = [ir.Constant(I64, part.bytes * number) for number in range(vectors)]
            bases = [element_address(builder, base, index, dtype.itemsize) for base in sources]
            loaded = [[part.load(builder, builder.add(base, offset)) for offset in offsets] for base in bases]
            values = formula(builder, part, loaded, numbers)
            base = element_address(builder, out, index, dtype.itemsize)
            passing_by = nontemporal and part.lanes > 1
            for value, offset in zip(values * (vectors // len(values)), offsets, strict=True):
                part.store(builder, value, builder.add(base, offset), passing_by)
            return carried

        def one_pass(index: ir.Value, carried: Values) -> Values:
            return walk.run(carried, body)

        counted_loop(builder, ir.Constant(I64, 0), repeats, 1, [], one_pass)
        if nontemporal:  # such stores may become visible late
            builder.fence("seq_cst")

    return emit


def largest(dtype: np.dtype[Any], vector_bytes: int = 0) -> Emit:
    """A worker that reads everything and keeps the largest element: exact in any order, one instruction per vector.
    Words: elements, repeats, address of the result (one element per thread), address of the input."""
    vector = Vector.widest(dtype, vector_bytes)
    lowest = -float("inf")

    def emit(builder: ir.IRBuilder, thread: ir.Value, words: Arguments) -> None:
        threads, count, repeats, result, source = (words.integer(index) for index in range(5))
        begin, end = share(builder, thread, threads, count)
        walk = Walk(builder, vector, READ_UNROLL, begin, end, aligned=source)

        def larger(a: ir.Value, b: ir.Value) -> ir.Value:
            return builder.select(builder.fcmp_ordered(">", a, b, flags=["nnan", "nsz"]), a, b)

        def body(index: ir.Value, part: Vector, vectors: int, found: Values) -> Values:
            base, first = element_address(builder, source, index, dtype.itemsize), 0 if part.lanes == 1 else 1
            new = list(found)
            for number in range(vectors):
                value = part.load(builder, builder.add(base, ir.Constant(I64, part.bytes * number)))
                new[first + number] = larger(found[first + number], value)
            return new

        start = [vector.scalar.constant(lowest), *[vector.constant(lowest)] * READ_UNROLL]
        found = counted_loop(
            builder, ir.Constant(I64, 0), repeats, 1, start, lambda index, values: walk.run(values, body)
        )
        numbers = [number for value in found[1:] for number in vector.numbers(builder, value)]
        total = functools.reduce(larger, numbers, found[0])
        vector.scalar.store(builder, total, element_address(builder, result, thread, dtype.itemsize))

    return emit


class Stream:
    """out[i] = formula(inputs[i], scalars) on every thread, by ordinary stores into a cache, and past the caches for
    an output of ``nontemporal_bytes`` or more."""

    def __init__(
        self,
        dtype: np.dtype[Any],
        threads: int,
        inputs: int,
        scalars: int,
        formula: Formula,
        nontemporal_bytes: int,
        unroll: int = 4,
    ) -> None:
        self._emitters = [elementwise(dtype, inputs, scalars, formula, unroll, past) for past in (False, True)]
        self._teams: list[Team | None] = [None, None]  # compiled when first needed
        self._threads = threads
        self._nontemporal_bytes = nontemporal_bytes

    def run(self, out: np.ndarray[Any, Any], *inputs_and_scalars: Any) -> None:
        past = out.nbytes >= self._nontemporal_bytes
        team = self._teams[past]
        if team is None:
            team = self._teams[past] = Team(self._emitters[past], self._threads)
        team.run(out.size, 1, out, *inputs_and_scalars)
