// K multiply-adds y = a y + b per element, from y = x. Every block has the same share of the elements, however many
// blocks there are, and with this many registers an SM holds one block: time goes by whole waves of blocks.
#include "common.cuh"

constexpr int CHAINS = 32, THREADS = 1024;  // elements that a thread works on at once

extern "C" __global__ void __launch_bounds__(THREADS)
    equal_shares(const float* __restrict__ x, float* __restrict__ y, float a, float b, long long n) {
    // in registers of the thread's own: the compiler would fetch them anew in every round of the loop
    const float factor = threadIdx.x < n ? a : 0, addend = threadIdx.x < n ? b : 0;
    const unsigned begin = n * blockIdx.x / gridDim.x, end = n * (blockIdx.x + 1) / gridDim.x;
#pragma unroll 1
    for (unsigned first = begin + threadIdx.x; first < end; first += CHAINS * THREADS) {
        float value[CHAINS];
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) value[c] = first + c * THREADS < end ? x[first + c * THREADS] : 0;
#pragma unroll 8
        for (int k = 0; k < K; ++k) {
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) value[c] = fmaf(factor, value[c], addend);
        }
        asm volatile("" : "+r"(first));  // what was worked out of it before would be kept too
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) {
            if (first + c * THREADS < end) y[first + c * THREADS] = value[c];
        }
    }
}
