"""y = A x, a row at a time."""

from __future__ import annotations

from numba import njit, prange


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"})
def gemv(a, x, y):
    rows, columns = a.shape
    for row in prange(rows):
        total = a.dtype.type(0)
        for column in range(columns):
            total += a[row, column] * x[column]
        y[row] = total
