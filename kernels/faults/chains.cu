// K multiply-adds y = a y + b per element, from y = x, each waiting for the one before. A thread works on CHAINS
// elements at once, between which nothing waits.
#include "common.cuh"

extern "C" __global__ void chains(const float* __restrict__ x, float* __restrict__ y, float a, float b, long long n) {
    // in registers of the thread's own: the compiler would fetch them anew in every round of the loop
    const float factor = threadIdx.x < n ? a : 0, addend = threadIdx.x < n ? b : 0;
    const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; first < n;
         first += CHAINS * threads) {
        float value[CHAINS];
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) value[c] = first + c * threads < n ? x[first + c * threads] : 0;
#pragma unroll 32
        for (int k = 0; k < K; ++k) {
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) value[c] = fmaf(factor, value[c], addend);
        }
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) {
            if (first + c * threads < n) y[first + c * threads] = value[c];
        }
    }
}
