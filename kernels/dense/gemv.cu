// y = A x, A of m x n row by row. One block per row; rows of any length start where they start, so a row has a scalar
// head up to the first 16-byte boundary, whole vectors, and a scalar tail.
#include "reduce.cuh"
#include "vector.cuh"

constexpr int TILE = BLOCK_THREADS * UNROLL;  // vectors that a block has in flight
constexpr int SUMS = 2;                       // of a thread: enough for its additions not to wait for each other

// A is used once: it passes by L1, where x stays for the next row. The condition is written out, because the compiler
// would move conditional loads into other registers, and so wait for each of them.
__device__ inline Vector load_passing(const real* elements, int index, bool wanted) {
    Vector vector;
    uint4& raw = reinterpret_cast<uint4&>(vector);
    asm volatile(
        "{ .reg .pred wanted; setp.ne.s32 wanted, %5, 0;\n"
        "mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;\n"
        "@wanted ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(raw.x), "=&r"(raw.y), "=&r"(raw.z), "=&r"(raw.w)
        : "l"(elements + index * VECTOR), "r"(static_cast<int>(wanted)));
    return vector;
}

// A tile of a row, of which `left` vectors are this thread's and those behind it. All loads of the row are in flight
// before x, which is near, is asked for: the branch between them keeps the compiler from spreading the loads.
// x_aligned: x can be read 16 bytes at a time where a row of A can
template <bool x_aligned>
__device__ inline void add_tile(const real* row, const real* x, long long left, accum (&sums)[SUMS]) {
    Vector row_part[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        row_part[i] = load_passing(row, i * BLOCK_THREADS, i * BLOCK_THREADS < left);
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        if (i * BLOCK_THREADS >= left) break;
        Vector x_part;
        if (x_aligned) x_part = load_vector(x, i * BLOCK_THREADS);
#pragma unroll
        for (int e = 0; e < VECTOR; ++e) {
            const real factor = x_aligned ? x_part.element[e] : x[i * BLOCK_THREADS * VECTOR + e];
            sums[e % SUMS] += to_accum(row_part[i].element[e]) * to_accum(factor);
        }
    }
}

template <bool x_aligned>
__device__ inline accum dot_of_vectors(const real* row, const real* x, long long vectors) {
    accum sums[SUMS] = {};
    for (long long first = threadIdx.x; first < vectors; first += TILE) {
        add_tile<x_aligned>(row + first * VECTOR, x + first * VECTOR, vectors - first, sums);
    }
    accum sum = 0;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sum += sums[i];
    return sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
    gemv(const real* __restrict__ a, const real* __restrict__ x, real* __restrict__ y, long long m, long long n) {
    for (long long row = blockIdx.x; row < m; row += gridDim.x) {
        const real* const start = a + row * n;
        const int past_boundary = reinterpret_cast<size_t>(start) % 16 / sizeof(real);
        const int to_boundary = past_boundary == 0 ? 0 : VECTOR - past_boundary;
        const long long head = to_boundary < n ? to_boundary : n;
        const long long vectors = (n - head) / VECTOR;
        accum sum = all_aligned(x + head) ? dot_of_vectors<true>(start + head, x + head, vectors)
                                          : dot_of_vectors<false>(start + head, x + head, vectors);
        for (long long i = threadIdx.x; i < head; i += BLOCK_THREADS) sum += to_accum(start[i]) * to_accum(x[i]);
        for (long long i = head + vectors * VECTOR + threadIdx.x; i < n; i += BLOCK_THREADS) {
            sum += to_accum(start[i]) * to_accum(x[i]);
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) y[row] = from_accum(sum);
    }
}
