// y += the sum of x. A thread sums 32 elements; then it adds them to y itself, or its block does once for all its
// threads.
#include "reduce.cuh"
#include "vector.cuh"

constexpr int VECTORS = 8;

__device__ inline float own_sum(const float* x, long long n) {
    const long long vectors = n / VECTOR,
                    first = static_cast<long long>(blockIdx.x) * blockDim.x * VECTORS + threadIdx.x;
    Vector part[VECTORS] = {};
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        if (first + i * blockDim.x < vectors) part[i] = load_vector(x, first + i * blockDim.x);
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
        for (int e = 0; e < VECTOR; ++e) sum += part[i].element[e];
    }
    const long long rest = vectors * VECTOR + threadIdx.x;  // the elements after the last vector
    return blockIdx.x == 0 && rest < n ? sum + x[rest] : sum;
}

extern "C" __global__ void add_each(const float* __restrict__ x, float* y, long long n) { atomicAdd(y, own_sum(x, n)); }

extern "C" __global__ void add_by_block(const float* __restrict__ x, float* y, long long n) {
    const float sum = block_sum(own_sum(x, n));
    if (threadIdx.x == 0) atomicAdd(y, sum);
}
