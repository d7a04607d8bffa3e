// y = w x with w the sum of exp(-sqrt(|s|)) over 32 values s: worked out for every element again, or once per thread.
#include "vector.cuh"

constexpr int TERMS = 32;

__device__ inline float weight(const float* s) {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < TERMS; ++j) {
        float root, power;  // each one instruction of the special function unit
        asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fabsf(s[j])));
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-1.442695041f * root));
        sum += power;
    }
    return sum;
}

extern "C" __global__ void weighted_each(const float* __restrict__ s, const float* __restrict__ x,
                                         float* __restrict__ y, long long n) {
    const long long i = first_element();
    if (i < n) y[i] = weight(s) * x[i];
}

extern "C" __global__ void weighted_once(const float* __restrict__ s, const float* __restrict__ x,
                                         float* __restrict__ y, long long n) {
    const float w = weight(s);
    const long long vectors = n / VECTOR;
#pragma unroll 1
    for (long long first = first_vector(); first < vectors; first += vector_stride()) {
        Vector part[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            if (first + i * blockDim.x < vectors) part[i] = load_vector(x, first + i * blockDim.x);
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
#pragma unroll
            for (int e = 0; e < VECTOR; ++e) part[i].element[e] *= w;
            if (first + i * blockDim.x < vectors) store_vector(y, first + i * blockDim.x, part[i]);
        }
    }
    for (long long i = vectors * VECTOR + first_element(); i < n; i += element_stride()) y[i] = w * x[i];
}
