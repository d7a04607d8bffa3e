// K steps y = -0.75 y + 0.875 per element, from y = x. The constants are of the type CONSTANT: written as double, they
// take every step to double precision and back.
#include "elementwise.cuh"

__device__ inline float steps(float value) {
#pragma unroll
    for (int k = 0; k < K; ++k) value = value * CONSTANT(-0.75) + CONSTANT(0.875);
    return value;
}

extern "C" __global__ void polynomial(const float* __restrict__ x, float* __restrict__ y, long long n) {
    elementwise(y, n, [](float value) { return steps(value); }, x);
}
