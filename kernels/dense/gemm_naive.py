"""C = A B by three plain loops. The innermost runs along the rows of B and C, as a compiler would have it."""

from __future__ import annotations

from numba import njit, prange


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract"})
def gemm_naive(a, b, c):
    rows, inner = a.shape
    columns = b.shape[1]
    for row in prange(rows):
        for column in range(columns):
            c[row, column] = 0
        for index in range(inner):
            factor = a[row, index]
            for column in range(columns):
                c[row, column] += factor * b[index, column]
