"""y = x / sqrt(mean(x^2) + eps) * w for each row of x."""

from __future__ import annotations

import math

from numba import njit, prange


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"})
def rmsnorm(x, w, y, eps):
    rows, columns = x.shape
    one, count = x.dtype.type(1), x.dtype.type(columns)
    for row in prange(rows):
        squares = x.dtype.type(0)
        for column in range(columns):
            squares += x[row, column] * x[row, column]
        factor = one / math.sqrt(squares / count + eps)
        for column in range(columns):
            y[row, column] = x[row, column] * factor * w[column]
