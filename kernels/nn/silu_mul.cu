// y = silu(g) u, silu(g) = g / (1 + exp(-g)): fused in one kernel, or as the two that an eager framework launches.
#include "elementwise.cuh"

__device__ inline accum silu_of(accum value) { return quotient(value, 1 + exponential(-value)); }

extern "C" __global__ void silu_mul(const real* g, const real* u, real* y, long long n) {
    elementwise(y, n, widened([](accum gate, accum up) { return silu_of(gate) * up; }), g, u);
}

// The two kernels of silu_then_mul take the same arguments; y holds what passes from one to the other.
extern "C" __global__ void silu(const real* g, const real*, real* y, long long n) {
    elementwise(y, n, widened([](accum gate) { return silu_of(gate); }), g);
}

extern "C" __global__ void mul(const real*, const real* u, real* y, long long n) {
    elementwise(y, n, widened([](accum activated, accum up) { return activated * up; }), y, u);
}
