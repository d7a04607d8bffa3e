// K multiply-adds y = a y + b per element, from y = x. A thread keeps 40 elements. The compiler is told how many blocks
// of 512 threads an SM shall hold: two leave 64 registers to a thread, four leave 32, and the rest goes to local
// memory.
#include "common.cuh"

constexpr int KEPT = 40, THREADS = 512;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    many_values(const float* __restrict__ x, float* __restrict__ y, float a, float b, long long n) {
    const unsigned first = blockIdx.x * (THREADS * KEPT) + threadIdx.x;
    int left = static_cast<int>(n) - static_cast<int>(first);
    const float* from = x + first;
    float value[KEPT];
#pragma unroll
    for (int i = 0; i < KEPT; ++i) value[i] = i * THREADS < left ? from[i * THREADS] : 0;
#pragma unroll 4
    for (int k = 0; k < K; ++k) {
#pragma unroll
        for (int i = 0; i < KEPT; ++i) value[i] = fmaf(a, value[i], b);
    }
    asm volatile("" : "+r"(left));  // the comparisons of before would be kept too
    float* to = y + first;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        if (i * THREADS < left) to[i * THREADS] = value[i];
    }
}
