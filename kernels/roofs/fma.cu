// The arithmetic roof: CHAINS independent chains of multiply-adds in registers, x = a x + b1, x = a x + b2, ..., which
// end in two values that take turns. A thread's result is the mean of its chains. Warps work on different numbers, so
// that the units toggle from one instruction to the next as they do on real data.
#include "common.cuh"

#ifndef UNIFORM_BYTES
#define UNIFORM_BYTES 16
#endif

static_assert(UNROLL % 2 == 0, "steps come in pairs");

// One step without FMA: the intrinsics are never fused.
__device__ inline double multiply_then_add(double a, double x, double b) { return __dadd_rn(__dmul_rn(a, x), b); }
__device__ inline float multiply_then_add(float a, float x, float b) { return __fadd_rn(__fmul_rn(a, x), b); }
#if defined(ROOFEXP_FP16) || defined(ROOFEXP_BF16)
__device__ inline piece multiply_then_add(piece a, piece x, piece b) { return __hadd2_rn(__hmul2_rn(a, x), b); }
__device__ inline accum sum_of_lanes(piece x) { return to_accum(x.x) + to_accum(x.y); }
#else
__device__ inline accum sum_of_lanes(piece x) { return x; }
#endif

template <typename Step>
__device__ void chains(real* y, accum a, accum b1, accum b2, long long n, long long passes, Step step) {
    const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const accum scale = 1 + accum(thread / 32 % 64) / 64;
    // Elements of at least UNIFORM_BYTES have their factor in a register that all threads share. Three 64-bit operands of
    // the thread's own are three reads of a register bank, in the two cycles that a DFMA takes; of narrower types all
    // three are ordinary registers.
    const piece factor = filled<piece>(sizeof(real) >= UNIFORM_BYTES || thread < n ? a : 0);
    const piece first = filled<piece>(b1 * scale), second = filled<piece>(b2 * scale);
    piece x[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) x[c] = filled<piece>(scale + accum(c) / 8);
#pragma unroll 1
    for (int pass = 0; pass < static_cast<int>(passes); ++pass) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) x[c] = step(factor, x[c], u % 2 ? second : first);
        }
    }
    accum sum = 0;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) sum += sum_of_lanes(x[c]);
    if (thread < n) y[thread] = from_accum(sum / (CHAINS * LANES));
}

extern "C" __global__ void fma_chains(real* y, accum a, accum b1, accum b2, long long n, long long passes) {
    chains(y, a, b1, b2, n, passes, [](piece a, piece x, piece b) { return multiply_add(a, x, b); });
}

extern "C" __global__ void mul_add_chains(real* y, accum a, accum b1, accum b2, long long n, long long passes) {
    chains(y, a, b1, b2, n, passes, [](piece a, piece x, piece b) { return multiply_then_add(a, x, b); });
}
