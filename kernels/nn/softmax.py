"""y = softmax of each row of x: largest, exponentials and their sum, quotients, while the row is in the cache."""

from __future__ import annotations

from numba import njit, prange
from vector_math import exponential, larger


@njit(parallel=True, nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"})
def softmax(x, y):
    rows, columns = x.shape
    one = x.dtype.type(1)
    for row in prange(rows):
        largest = x[row, 0]
        for column in range(columns):
            largest = larger(largest, x[row, column])
        total = x.dtype.type(0)
        for column in range(columns):
            power = exponential(x[row, column] - largest)
            y[row, column] = power
            total += power  # a NaN anywhere in the row ends here, and makes the whole row NaN
        factor = one / total
        for column in range(columns):
            y[row, column] *= factor
