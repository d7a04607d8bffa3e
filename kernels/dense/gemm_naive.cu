// C = A B, one thread per element of C: every element of A and B is fetched by as many threads as need it.
#include "common.cuh"

extern "C" __global__ void gemm_naive(const real* __restrict__ a, const real* __restrict__ b, real* __restrict__ c,
                                      long long m, long long n, long long k) {
    const long long row = static_cast<long long>(blockIdx.y) * blockDim.y + threadIdx.y;
    const long long column = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    accum sum = 0;
    for (long long i = 0; i < k; ++i) sum += to_accum(a[row * k + i]) * to_accum(b[i * n + column]);
    c[row * n + column] = from_accum(sum);
}
