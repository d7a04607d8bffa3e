// y = the largest element of x, with neighbouring threads STRIDE elements apart: x is taken as rows of STRIDE elements,
// and read one column after another. The rows begin OFFSET elements past a line.
#ifndef OFFSET
#define OFFSET 0
#endif
#include "grid.cuh"
#include "vector.cuh"

__device__ inline real larger(real a, real b) { return a > b ? a : b; }

extern "C" __global__ void read_strided(const real* x, real* y, long long n) {
    accum largest = LOWEST;
    const long long skipped = n < OFFSET ? n : OFFSET, rows = (n - skipped) / STRIDE;
    const real* const from = x + skipped;
#pragma unroll 1
    for (int column = 0; column < STRIDE; ++column) {
#pragma unroll 8
        for (long long row = first_element(); row < rows; row += element_stride()) {
            largest = larger(largest, from[row * STRIDE + column]);
        }
    }
    for (long long i = skipped + rows * STRIDE + first_element(); i < n; i += element_stride()) {
        largest = larger(largest, x[i]);
    }
    if (first_element() < skipped) largest = larger(largest, x[first_element()]);
    if (grid_reduce(largest, LOWEST, larger)) y[0] = largest;
}
