"""y = (x - mean(x)) / sqrt(var(x) + eps) * w + b for each row of x."""

from __future__ import annotations

import math

from numba import njit, prange


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"})
def layernorm(x, w, b, y, eps):
    rows, columns = x.shape
    one, count = x.dtype.type(1), x.dtype.type(columns)
    for row in prange(rows):
        total = x.dtype.type(0)
        for column in range(columns):
            total += x[row, column]
        mean = total / count
        squares = x.dtype.type(0)  # of deviations: the mean of squares less the square of the mean cancels
        for column in range(columns):
            squares += (x[row, column] - mean) * (x[row, column] - mean)
        factor = one / math.sqrt(squares / count + eps)
        for column in range(columns):
            y[row, column] = (x[row, column] - mean) * factor * w[column] + b[column]
