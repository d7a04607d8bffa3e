// Every warp sums 1024 values of shared memory over and over, 32 at a time, WAYS (a power of two up to 32) of which lie
// in one bank. y is each thread's sum.
#include "common.cuh"

constexpr int VALUES = 1024, LANES_OF_WARP = 32;

extern "C" __global__ void read_banks(const float* __restrict__ x, float* __restrict__ y, long long passes) {
    __shared__ float kept[VALUES];
    for (int i = threadIdx.x; i < VALUES; i += blockDim.x) kept[i] = x[i];
    __syncthreads();
    const float* from = kept + threadIdx.x % LANES_OF_WARP * WAYS;
    const long long nothing = passes >> 32;  // zero, which the compiler cannot know: every pass reads again
    float sums[4] = {};
#pragma unroll 1
    for (int pass = 0; pass < static_cast<int>(passes); ++pass) {
#pragma unroll
        for (int step = 0; step < VALUES / LANES_OF_WARP; ++step) {
            sums[step % 4] += from[step / WAYS * LANES_OF_WARP * WAYS + step % WAYS];
        }
        from += nothing;
    }
    y[static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
