// The roofs inside an SM: every block reads the same few kilobytes over and over, from L1 or from its shared memory,
// 16 bytes per thread and THREADS threads side by side. y is each block's sum over all passes.
#include "reduce.cuh"

__device__ inline void read_over_and_over(const float4* from, float* y, long long passes) {
    // Zero, which the compiler cannot know: otherwise it would load once what every pass loads again.
    const long long nothing = passes >> 32;
    float4 sums[UNROLL] = {};
    from += threadIdx.x;
#pragma unroll 4
    for (int pass = 0; pass < static_cast<int>(passes); ++pass) {
        float4 taken[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) taken[i] = from[i * THREADS];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            sums[i].x += taken[i].x;
            sums[i].y += taken[i].y;
            sums[i].z += taken[i].z;
            sums[i].w += taken[i].w;
        }
        from += nothing;
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) sum += (sums[i].x + sums[i].y) + (sums[i].z + sums[i].w);
    sum = block_sum(sum);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    read_l1(const float4* __restrict__ x, float* __restrict__ y, long long passes) {
    read_over_and_over(x, y, passes);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    read_shared(const float4* __restrict__ x, float* __restrict__ y, long long passes) {
    __shared__ float4 kept[THREADS * UNROLL];
    for (int i = threadIdx.x; i < THREADS * UNROLL; i += THREADS) kept[i] = x[i];
    __syncthreads();
    read_over_and_over(kept, y, passes);
}
