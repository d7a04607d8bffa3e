// y = x rounded to a multiple of 1 / scale, PASSES times over (the second changes nothing). INTEGER = 1 goes by an
// integer and back, 0 adds and takes away a number so large that only whole numbers lie beside it.
#include "elementwise.cuh"

constexpr float LARGE = 12582912;  // 1.5 * 2^23

__device__ inline float rounded(float value, float scale, float step) {
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
        const float whole =
            INTEGER ? static_cast<float>(__float2int_rn(value * scale)) : fmaf(value, scale, LARGE) - LARGE;
        value = whole * step;
    }
    return value;
}

extern "C" __global__ void round_to_steps(const float* __restrict__ x, float* __restrict__ y, float scale, float step,
                                          long long n) {
    elementwise(y, n, [=](float value) { return rounded(value, scale, step); }, x);
}
