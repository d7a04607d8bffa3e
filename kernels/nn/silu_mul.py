"""y = silu(g) u in one pass, silu(g) = g / (1 + exp(-g))."""

from __future__ import annotations

from numba import njit, prange
from vector_math import exponential


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract"})
def silu_mul(g, u, y):
    one = g.dtype.type(1)
    for index in prange(g.size):
        y[index] = g[index] / (one + exponential(-g[index])) * u[index]
