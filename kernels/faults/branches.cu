// K multiply-adds y = a y + b per element, from y = x, with one of four a = path / 8 - 1/2. SPAN elements side by side
// take the same path: 32 keep a warp together, 1 sends its threads down all four, one after the other.
#include "common.cuh"

constexpr int PATHS = 4, CHAINS = 8;

template <int PATH>
__device__ inline void walk(float (&value)[CHAINS], float b) {
#pragma unroll 16
    for (int k = 0; k < K; ++k) {
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) value[c] = fmaf(PATH / 8.0f - 0.5f, value[c], b);
    }
}

// A block has a multiple of 128 threads, so that all elements of a thread take the same path.
extern "C" __global__ void branches(const float* __restrict__ x, float* __restrict__ y, float b, long long n) {
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x * CHAINS + threadIdx.x;
    float value[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) value[c] = first + c * blockDim.x < n ? x[first + c * blockDim.x] : 0;
    switch (threadIdx.x / SPAN % PATHS) {
        case 0:
            walk<0>(value, b);
            break;
        case 1:
            walk<1>(value, b);
            break;
        case 2:
            walk<2>(value, b);
            break;
        default:
            walk<3>(value, b);
    }
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) {
        if (first + c * blockDim.x < n) y[first + c * blockDim.x] = value[c];
    }
}
