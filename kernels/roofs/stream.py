"""The bandwidth roofs: read, write, copy and triad over arrays, of which every thread has a slice of its own.

``repeats`` passes are made inside one launch, so that slices of the size of L1 are not a matter of launching.
``nontemporal`` stores are for arrays in DRAM: ordinary stores read every line before they write it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from roofexp.kernel.llvm.builder import Team, Values, Vector
from roofexp.kernel.llvm.streams import Formula, elementwise, largest

Launch = Callable[..., None]


def read(dtype: np.dtype[Any], params: dict[str, Any], threads: int) -> Launch:
    """y[0] = the largest x[i]"""
    team = Team(largest(dtype, params["vector_bytes"]), params["threads"] or threads)
    of_thread = np.empty(team.threads, dtype)

    def run(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> None:
        team.run(x.size, params["repeats"], of_thread, x)
        y[0] = of_thread.max()

    return run


def write(dtype: np.dtype[Any], params: dict[str, Any], threads: int) -> Launch:
    """y[i] = a"""
    team = _team(dtype, params, threads, 0, 1, lambda builder, vector, loaded, scalars: scalars)
    return lambda y, a: team.run(y.size, params["repeats"], y, a)


def copy(dtype: np.dtype[Any], params: dict[str, Any], threads: int) -> Launch:
    """y[i] = x[i]"""
    team = _team(dtype, params, threads, 1, 0, lambda builder, vector, loaded, scalars: loaded[0])
    return lambda x, y: team.run(y.size, params["repeats"], y, x)


def triad(dtype: np.dtype[Any], params: dict[str, Any], threads: int) -> Launch:
    """z[i] = x[i] + a y[i]"""
    team = _team(dtype, params, threads, 2, 1, triad_formula)
    return lambda x, y, z, a: team.run(z.size, params["repeats"], z, x, y, a)


def triad_formula(builder: ir.IRBuilder, vector: Vector, loaded: list[Values], scalars: Values) -> Values:
    return [vector.fma(builder, y, scalars[0], x) for x, y in zip(*loaded, strict=True)]


def _team(
    dtype: np.dtype[Any], params: dict[str, Any], threads: int, inputs: int, scalars: int, formula: Formula
) -> Team:
    past, vector_bytes = bool(params["nontemporal"]), params["vector_bytes"]
    emit = elementwise(dtype, inputs, scalars, formula, nontemporal=past, vector_bytes=vector_bytes)
    return Team(emit, params["threads"] or threads)
