"""y = x^T in tiles, so that every cache line is used whole while it is there."""

from __future__ import annotations

from numba import njit, prange

TILE = 32


@njit(parallel=True, nogil=True, cache=True)
def transpose(x, y):
    rows, columns = x.shape
    for band in prange((columns + TILE - 1) // TILE):
        first, last = band * TILE, min((band + 1) * TILE, columns)
        for top in range(0, rows, TILE):
            for column in range(first, last):
                for row in range(top, min(top + TILE, rows)):
                    y[column, row] = x[row, column]
