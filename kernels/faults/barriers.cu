// The variance of rows of 1024 values, from the mean and the squared distances to it. By tree: 1024 threads per row
// halve the sums ten times, with a barrier after each. By warp: 32 threads per row, and no barrier.
#include "reduce.cuh"

constexpr int COLUMNS = 1024, WARP = 32, FOURS = COLUMNS / WARP / 4;

__device__ inline float tree_sum(float value, float* kept) {
    kept[threadIdx.x] = value;
    __syncthreads();
#pragma unroll 1
    for (int half = COLUMNS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) kept[threadIdx.x] += kept[threadIdx.x + half];
        __syncthreads();
    }
    const float sum = kept[0];
    __syncthreads();  // before the next sum
    return sum;
}

extern "C" __global__ void __launch_bounds__(COLUMNS)
    variance_by_tree(const float* __restrict__ x, float* __restrict__ y, long long rows) {
    __shared__ float kept[COLUMNS];
    float next = blockIdx.x < rows ? x[blockIdx.x * static_cast<long long>(COLUMNS) + threadIdx.x] : 0;
#pragma unroll 1
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const float value = next;
        if (row + gridDim.x < rows) next = x[(row + gridDim.x) * COLUMNS + threadIdx.x];
        const float mean = tree_sum(value, kept) / COLUMNS;
        const float squares = tree_sum((value - mean) * (value - mean), kept);
        if (threadIdx.x == 0) y[row] = squares / COLUMNS;
    }
}

extern "C" __global__ void variance_by_warp(const float4* __restrict__ x, float* __restrict__ y, long long rows) {
    const long long row = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
    if (row >= rows) return;
    const int lane = threadIdx.x % WARP;
    float4 part[FOURS];
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < FOURS; ++i) part[i] = x[row * (COLUMNS / 4) + i * WARP + lane];
#pragma unroll
    for (int i = 0; i < FOURS; ++i) sum += (part[i].x + part[i].y) + (part[i].z + part[i].w);
    const auto plus = [](float a, float b) { return a + b; };
    const float mean = warp_reduce(sum, plus) / COLUMNS;
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        const float a = part[i].x - mean, b = part[i].y - mean, c = part[i].z - mean, d = part[i].w - mean;
        squares += (a * a + b * b) + (c * c + d * d);
    }
    squares = warp_reduce(squares, plus);
    if (lane == 0) y[row] = squares / COLUMNS;
}
