// y = x
#include "elementwise.cuh"

extern "C" __global__ void copy(const real* x, real* y, long long n) {
    elementwise(y, n, [](auto x) { return x; }, x);
}
