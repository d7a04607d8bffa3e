// y = a x + b, by threads that hold KEPT values in registers from their first instruction to their last. The launch may
// ask for shared memory besides, which nobody uses.
#include "common.cuh"

constexpr int UNROLL = 2;

extern "C" __global__ void scale(const float4* __restrict__ x, float4* __restrict__ y, float a, float b, long long n) {
    const float* const first_values = reinterpret_cast<const float*>(x);
    float kept[KEPT + 1];
#pragma unroll
    for (int i = 0; i < KEPT; ++i)
        asm volatile("ld.volatile.global.f32 %0, [%1];" : "=f"(kept[i]) : "l"(first_values + i % 4));
    const long long fours = n / 4, step = static_cast<long long>(gridDim.x) * blockDim.x * UNROLL;
#pragma unroll 1
    for (long long first = static_cast<long long>(blockIdx.x) * blockDim.x * UNROLL + threadIdx.x; first < fours;
         first += step) {
        float4 part[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            if (first + i * blockDim.x < fours) part[i] = x[first + i * blockDim.x];
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const float4 v = part[i];
            if (first + i * blockDim.x >= fours) continue;
            y[first + i * blockDim.x] = {fmaf(a, v.x, b), fmaf(a, v.y, b), fmaf(a, v.z, b), fmaf(a, v.w, b)};
        }
    }
    const long long rest = fours * 4 + threadIdx.x;  // the elements after the last four
    if (blockIdx.x == 0 && rest < n) {
        reinterpret_cast<float*>(y)[rest] = fmaf(a, reinterpret_cast<const float*>(x)[rest], b);
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) sum += kept[i];
    if (sum > 3e38f) y[0].x = sum;  // never, which the compiler cannot know
}
