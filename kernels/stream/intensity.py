"""y = x, then k times y = a y + b in registers: FLOPs per byte as one likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from roofexp.kernel.llvm.builder import I64, Values, Vector, counted_loop
from roofexp.kernel.llvm.streams import Stream


def build(dtype: np.dtype[Any], params: dict[str, Any], threads: int) -> Callable[..., None]:
    """Vectors in flight are as many as the registers hold, so that multiply-adds do not wait for one another."""
    unroll = Vector.widest(dtype).registers * 5 // 8
    formula = steps(params["k"])
    stream = Stream(dtype, threads, 1, 2, formula, params["nontemporal_bytes"], unroll)
    return lambda x, y, a, b: stream.run(y, x, a, b)


def steps(k: int) -> Callable[[ir.IRBuilder, Vector, list[Values], Values], Values]:
    def formula(builder: ir.IRBuilder, vector: Vector, loaded: list[Values], scalars: Values) -> Values:
        a, b = scalars

        def step(index: ir.Value, values: Values) -> Values:
            return [vector.fma(builder, value, a, b) for value in values]

        return counted_loop(builder, ir.Constant(I64, 0), ir.Constant(I64, k), 1, loaded[0], step)

    return formula
