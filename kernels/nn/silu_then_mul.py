"""y = silu(g) u in two launches, as an eager framework makes them: silu(g) goes out to memory and comes back."""

from __future__ import annotations

from numba import njit, prange
from vector_math import exponential


def silu_then_mul(g, u, y):
    silu(g, y)
    multiply(u, y)


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract"})
def silu(g, y):
    one = g.dtype.type(1)
    for index in prange(g.size):
        y[index] = g[index] / (one + exponential(-g[index]))


@njit(parallel=True, nogil=True, cache=True)
def multiply(u, y):
    for index in prange(u.size):
        y[index] *= u[index]
