// y = a x + y
#include "elementwise.cuh"

extern "C" __global__ void saxpy(const real* x, real* y, accum a, long long n) {
    elementwise(y, n, [=](auto x, auto y) { return multiply_add(filled<decltype(x)>(a), x, y); }, x, y);
}
