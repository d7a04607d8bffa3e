// C = A B through TILE x TILE tiles in shared memory: global loads shrink by the factor TILE. One thread per element of
// a tile; a block of TILE x TILE threads.
#include "common.cuh"

extern "C" __global__ void gemm_tiled(const real* __restrict__ a, const real* __restrict__ b, real* __restrict__ c,
                                      long long m, long long n, long long k) {
    __shared__ accum a_tile[TILE][TILE], b_tile[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const long long row = static_cast<long long>(blockIdx.y) * TILE + y;
    const long long column = static_cast<long long>(blockIdx.x) * TILE + x;
    accum sum = 0;
    for (long long start = 0; start < k; start += TILE) {
        a_tile[y][x] = row < m && start + x < k ? to_accum(a[row * k + start + x]) : accum(0);
        b_tile[y][x] = start + y < k && column < n ? to_accum(b[(start + y) * n + column]) : accum(0);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = from_accum(sum);
}
