// The types of the point's precision: how an element is stored (real), what is worked on at once (piece: two elements
// of a 16-bit type, else one), and what sums are kept in (accum). The program defines ROOFEXP_<PRECISION> = 1, and each
// of the kernel's parameters in upper case.
#pragma once
#if defined(ROOFEXP_FP16) || defined(ROOFEXP_BF16) || __has_include(<cuda_fp16.h>)  // the others can do without
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define ROOFEXP_HALF_TYPES
#endif

#if defined(ROOFEXP_FP64)
using real = double;
using piece = double;
using accum = double;
#elif defined(ROOFEXP_FP32) || defined(ROOFEXP_TF32)
using real = float;
using piece = float;
using accum = float;
#elif defined(ROOFEXP_FP16)
using real = __half;
using piece = __half2;
using accum = float;
#elif defined(ROOFEXP_BF16)
using real = __nv_bfloat16;
using piece = __nv_bfloat162;
using accum = float;
#else
#error "this kernel needs one of ROOFEXP_FP64, ROOFEXP_FP32, ROOFEXP_TF32, ROOFEXP_FP16, ROOFEXP_BF16"
#endif

constexpr int LANES = sizeof(piece) / sizeof(real);  // elements in a piece

// Below every finite number; finite itself, so that the difference of two of them is zero and not NaN.
#if defined(ROOFEXP_FP64)
constexpr accum LOWEST = -1.7976931348623157e308;
#else
constexpr accum LOWEST = -3.402823466e38f;
#endif

__device__ inline accum to_accum(double value) { return static_cast<accum>(value); }
__device__ inline accum to_accum(float value) { return static_cast<accum>(value); }
#if defined(ROOFEXP_HALF_TYPES)
__device__ inline accum to_accum(__half value) { return static_cast<accum>(__half2float(value)); }
__device__ inline accum to_accum(__nv_bfloat16 value) { return static_cast<accum>(__bfloat162float(value)); }
#endif

__device__ inline real from_accum(accum value) {
#if defined(ROOFEXP_FP16)
    return __float2half_rn(value);
#elif defined(ROOFEXP_BF16)
    return __float2bfloat16_rn(value);
#else
    return value;
#endif
}

// The same value in every lane of T, an element or a piece.
template <typename T>
__device__ inline T filled(accum value);
template <>
__device__ inline real filled<real>(accum value) {
    return from_accum(value);
}
#if defined(ROOFEXP_FP16) || defined(ROOFEXP_BF16)
template <>
__device__ inline piece filled<piece>(accum value) {
    return {from_accum(value), from_accum(value)};
}
#endif

// Arithmetic in the point's own precision, each one instruction; a 16-bit type does both lanes of a piece.
__device__ inline double add(double a, double b) { return a + b; }
__device__ inline float add(float a, float b) { return a + b; }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
#if defined(ROOFEXP_FP16) || defined(ROOFEXP_BF16)
__device__ inline real add(real a, real b) { return __hadd(a, b); }
__device__ inline piece add(piece a, piece b) { return __hadd2(a, b); }
__device__ inline real multiply_add(real a, real b, real c) { return __hfma(a, b, c); }
__device__ inline piece multiply_add(piece a, piece b, piece c) { return __hfma2(a, b, c); }
#endif

// fp32 and narrower through the special function unit: a few ulp, well within every tolerance here.
__device__ inline double exponential(double value) { return exp(value); }
__device__ inline float exponential(float value) { return __expf(value); }
__device__ inline double quotient(double a, double b) { return a / b; }
__device__ inline float quotient(float a, float b) { return __fdividef(a, b); }
