// y = a x in sixteen slices: one kernel for each, to be launched one after the other, or all of it at once.
#include "elementwise.cuh"

constexpr int SLICES = 16;

__device__ inline void scale_slice(const float* x, float* y, float a, long long n, int slice) {
    const long long per_slice = n / SLICES, begin = slice * per_slice;
    elementwise(
        y + begin, slice == SLICES - 1 ? n - begin : per_slice, [=](float value) { return a * value; }, x + begin);
}

#define SLICE(number)                                                                                     \
    extern "C" __global__ void slice##number(const float* __restrict__ x, float* __restrict__ y, float a, \
                                             long long n) {                                               \
        scale_slice(x, y, a, n, number);                                                                  \
    }
SLICE(0)
SLICE(1)
SLICE(2)
SLICE(3)
SLICE(4)
SLICE(5) SLICE(6) SLICE(7) SLICE(8) SLICE(9) SLICE(10) SLICE(11) SLICE(12) SLICE(13) SLICE(14) SLICE(15)

    extern "C" __global__ void whole(const float* __restrict__ x, float* __restrict__ y, float a, long long n) {
    elementwise(y, n, [=](float value) { return a * value; }, x);
}
