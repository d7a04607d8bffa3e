"""One step of a 5-point stencil: y = x + c (north + south + west + east - 4 x), the border copied."""

from __future__ import annotations

from numba import njit, prange


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract"})
def stencil(x, y, c):
    rows, columns = x.shape
    four = x.dtype.type(4)
    for row in prange(rows):
        if row == 0 or row == rows - 1:
            for column in range(columns):
                y[row, column] = x[row, column]
        else:
            y[row, 0] = x[row, 0]
            y[row, columns - 1] = x[row, columns - 1]
            for column in range(1, columns - 1):
                around = x[row - 1, column] + x[row + 1, column] + x[row, column - 1] + x[row, column + 1]
                y[row, column] = x[row, column] + c * (around - four * x[row, column])
