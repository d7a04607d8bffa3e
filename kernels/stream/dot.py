"""s = x . y"""

from __future__ import annotations

from numba import njit, prange

BLOCK = 8192  # elements summed in the kernel's precision; blocks are summed in fp64, so that no digits are lost


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"})
def dot(x, y, s):
    total = 0.0
    for block in prange((x.size + BLOCK - 1) // BLOCK):
        part = x.dtype.type(0)
        for index in range(block * BLOCK, min((block + 1) * BLOCK, x.size)):
            part += x[index] * y[index]
        total += part
    s[0] = total
