"""y = x^T in tiles that pass through a small buffer: every cache line of x and y is used whole while it is there, and
rows a power of two apart, which fall into the same few lines of a cache, do not push one another out."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

TILE = 16


@njit(parallel=True, nogil=True, cache=True)
def transpose(x, y):
    rows, columns = x.shape
    for band in prange((rows + TILE - 1) // TILE):
        buffer = np.empty((TILE, TILE), x.dtype)
        top = band * TILE
        height = min(TILE, rows - top)
        for left in range(0, columns, TILE):
            width = min(TILE, columns - left)
            if height == TILE and width == TILE:  # with numbers known to the compiler it is half as slow
                transpose_tile(x, y, buffer, top, left, TILE, TILE)
            else:
                transpose_tile(x, y, buffer, top, left, height, width)


@njit(inline="always")
def transpose_tile(x, y, buffer, top, left, height, width):
    for row in range(height):
        for column in range(width):
            buffer[column, row] = x[top + row, left + column]
    for column in range(width):
        for row in range(height):
            y[left + column, top + row] = buffer[column, row]
