"""y = x^T in tiles that pass through a small buffer: every cache line of x and y is used whole while it is there, and
rows a power of two apart, which fall into the same few lines of a cache, do not push one another out."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

TILE = 32


@njit(parallel=True, nogil=True, cache=True)
def transpose(x, y):
    rows, columns = x.shape
    for band in prange((rows + TILE - 1) // TILE):
        tile = np.empty((TILE, TILE), x.dtype)
        top = band * TILE
        height = min(TILE, rows - top)
        for left in range(0, columns, TILE):
            width = min(TILE, columns - left)
            for row in range(height):
                for column in range(width):
                    tile[column, row] = x[top + row, left + column]
            for column in range(width):
                for row in range(height):
                    y[left + column, top + row] = tile[column, row]
