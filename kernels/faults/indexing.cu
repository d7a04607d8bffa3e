// y = x, element by element. ROUNDS times over, the index is turned into its place on a Morton curve and back, bit by
// bit: the same index in the end, after a hundred instructions on integers.
#include "common.cuh"

constexpr int UNROLL = 4, BITS = 13;  // of each of two coordinates

__device__ inline unsigned there_and_back(unsigned index) {
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        unsigned curve = 0, back = 0;
#pragma unroll
        for (int bit = 0; bit < BITS; ++bit) {
            curve |= (index >> bit & 1) << 2 * bit;
            curve |= (index >> (BITS + bit) & 1) << (2 * bit + 1);
        }
        asm volatile("xor.b32 %0, %0, 0x15555555;" : "+r"(curve));  // so that the way back is not worked out beforehand
        asm volatile("xor.b32 %0, %0, 0x15555555;" : "+r"(curve));
#pragma unroll
        for (int bit = 0; bit < BITS; ++bit) {
            back |= (curve >> 2 * bit & 1) << bit;
            back |= (curve >> (2 * bit + 1) & 1) << (BITS + bit);
        }
        index = back;
    }
    return index;
}

extern "C" __global__ void indexed_copy(const float* __restrict__ x, float* __restrict__ y, long long n) {
    const unsigned first = blockIdx.x * blockDim.x * UNROLL + threadIdx.x;
    float value[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        if (first + i * blockDim.x < n) value[i] = x[there_and_back(first + i * blockDim.x)];
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        if (first + i * blockDim.x < n) y[first + i * blockDim.x] = value[i];
    }
}
