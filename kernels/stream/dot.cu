// s = x . y, summed in the accumulation type, in the same order in every launch of the same grid.
#include "grid.cuh"
#include "vector.cuh"

extern "C" __global__ void dot(const real* __restrict__ x, const real* __restrict__ y, real* s, long long n) {
    const long long vectors = whole_vectors(n, x, y);
    accum sums[UNROLL] = {};
#pragma unroll 1
    for (long long first = first_vector(); first < vectors; first += vector_stride()) {
        Vector x_part[UNROLL], y_part[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const long long at = first + i * blockDim.x;
            if (at < vectors) {
                x_part[i] = load_vector(x, at);
                y_part[i] = load_vector(y, at);
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            if (first + i * blockDim.x < vectors) {
#pragma unroll
                for (int e = 0; e < VECTOR; ++e) {
                    sums[i] += to_accum(x_part[i].element[e]) * to_accum(y_part[i].element[e]);
                }
            }
        }
    }
    accum sum = 0;
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) sum += sums[i];
#pragma unroll 1
    for (long long i = vectors * VECTOR + first_element(); i < n; i += element_stride()) {
        sum += to_accum(x[i]) * to_accum(y[i]);
    }
    if (grid_reduce(sum, accum(0), [](accum a, accum b) { return a + b; })) s[0] = from_accum(sum);
}
