// y = A x, A of m x n row by row. One block per row; rows of any length start where they start, so a row has a scalar
// head up to the first 16-byte boundary, whole vectors, and a scalar tail.
#include "reduce.cuh"
#include "vector.cuh"

// x_aligned: x can be read 16 bytes at a time where a row of A can
template <bool x_aligned>
__device__ accum dot_of_vectors(const real* __restrict__ row, const real* __restrict__ x, long long vectors) {
    accum sums[UNROLL] = {};
    for (long long first = threadIdx.x; first < vectors; first += blockDim.x * UNROLL) {
        Vector row_part[UNROLL], x_part[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const long long at = first + i * blockDim.x;
            if (at < vectors) {
                row_part[i] = load_vector(row, at);
                if (x_aligned) x_part[i] = load_vector(x, at);
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const long long at = first + i * blockDim.x;
            if (at < vectors) {
#pragma unroll
                for (int e = 0; e < VECTOR; ++e) {
                    const real factor = x_aligned ? x_part[i].element[e] : x[at * VECTOR + e];
                    sums[i] += to_accum(row_part[i].element[e]) * to_accum(factor);
                }
            }
        }
    }
    accum sum = 0;
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) sum += sums[i];
    return sum;
}

extern "C" __global__ void gemv(const real* __restrict__ a, const real* __restrict__ x, real* __restrict__ y,
                                long long m, long long n) {
    for (long long row = blockIdx.x; row < m; row += gridDim.x) {
        const real* const start = a + row * n;
        const long long past_boundary = reinterpret_cast<size_t>(start) % 16 / sizeof(real);
        const long long to_boundary = past_boundary == 0 ? 0 : VECTOR - past_boundary;
        const long long head = to_boundary < n ? to_boundary : n;
        const long long vectors = (n - head) / VECTOR;
        accum sum = all_aligned(x + head) ? dot_of_vectors<true>(start + head, x + head, vectors)
                                          : dot_of_vectors<false>(start + head, x + head, vectors);
        for (long long i = threadIdx.x; i < head; i += blockDim.x) sum += to_accum(start[i]) * to_accum(x[i]);
        for (long long i = head + vectors * VECTOR + threadIdx.x; i < n; i += blockDim.x) {
            sum += to_accum(start[i]) * to_accum(x[i]);
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) y[row] = from_accum(sum);
    }
}
