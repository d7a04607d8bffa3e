// The tensor cores through mma.sync, as every GPU since Turing has it (on Hopper a ceiling: wgmma is faster there).
// Every pass of a warp computes the same 32 x 32 product anew from registers, over the 128 bytes of a row of A and B.
// ACCUMULATE is 32, or 16 for sums in fp16.
#ifndef ACCUMULATE
#define ACCUMULATE 32
#endif
#include <cuda_fp16.h>

constexpr int EDGE = 32, TALL = EDGE / 16, WIDE = EDGE / 8;  // the product, and the instructions' 16 x 8 parts of it
constexpr int ROW_WORDS = 32, STEPS = 4;                     // words of 4 bytes; a step takes eight of them
constexpr int SUMS = ACCUMULATE / 8;                         // registers of a thread for one part

// d = A B^T + c for a 16 x 8 part over 32 bytes of each row.
__device__ inline void multiply(unsigned (&d)[SUMS], const unsigned (&a)[4], const unsigned (&b)[2],
                                const unsigned (&c)[SUMS]) {
#define FOUR_SUMS(INSTRUCTION)                                                                                        \
    asm volatile("mma.sync.aligned." INSTRUCTION                                                                      \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "                                                    \
                 "{%10, %11, %12, %13};"                                                                              \
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), \
                   "r"(c[3]))
#if defined(ROOFEXP_BF16)
    FOUR_SUMS("m16n8k16.row.col.f32.bf16.bf16.f32");
#elif defined(ROOFEXP_TF32)
    FOUR_SUMS("m16n8k8.row.col.f32.tf32.tf32.f32");
#elif defined(ROOFEXP_FP8)
    FOUR_SUMS("m16n8k32.row.col.f32.e4m3.e4m3.f32");
#elif defined(ROOFEXP_INT8) && __CUDA_ARCH__ >= 800
    FOUR_SUMS("m16n8k32.row.col.s32.s8.s8.s32");
#elif defined(ROOFEXP_INT8)  // Turing: eight rows and 16 bytes at once
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%4, %5};"
                     : "=r"(d[half * 2]), "=r"(d[half * 2 + 1])
                     : "r"(a[half]), "r"(b[0]), "r"(c[half * 2]), "r"(c[half * 2 + 1]));
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+r"(d[half * 2]), "+r"(d[half * 2 + 1])
                     : "r"(a[half + 2]), "r"(b[1]));
    }
#elif defined(ROOFEXP_FP16) && ACCUMULATE == 32 && __CUDA_ARCH__ >= 800
    FOUR_SUMS("m16n8k16.row.col.f32.f16.f16.f32");
#elif defined(ROOFEXP_FP16) && ACCUMULATE == 32  // Turing: 16 bytes at once
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[2]), "r"(a[3]), "r"(b[1]));
#elif defined(ROOFEXP_FP16) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));
#elif defined(ROOFEXP_FP16)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%5, %6};"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[2]), "r"(a[3]), "r"(b[1]));
#else
#error "mma.sync does bf16, fp16, tf32, fp8 and int8 here"
#endif
}

__device__ inline float sum_at(const unsigned (&sums)[SUMS], int index) {
#if defined(ROOFEXP_INT8)
    return static_cast<float>(static_cast<int>(sums[index]));
#elif ACCUMULATE == 32
    return __uint_as_float(sums[index]);
#else
    const __half2 pair = reinterpret_cast<const __half2&>(sums[index / 2]);
    return __half2float(index % 2 ? pair.y : pair.x);
#endif
}

// a and b: 32 rows of 128 bytes each; y: 32 x 32, from the first warp.
extern "C" __global__ void mma_sync(const unsigned* __restrict__ a, const unsigned* __restrict__ b,
                                    float* __restrict__ y, long long passes) {
    const int lane = threadIdx.x % 32, group = lane / 4, place = lane % 4;
    unsigned a_part[STEPS][TALL][4], b_part[STEPS][WIDE][2];
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int part = 0; part < TALL; ++part) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {  // rows eight apart first, then the second 16 bytes
                const int row = part * 16 + group + i % 2 * 8;
                a_part[step][part][i] = a[row * ROW_WORDS + step * 8 + i / 2 * 4 + place];
            }
        }
#pragma unroll
        for (int part = 0; part < WIDE; ++part) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                b_part[step][part][i] = b[(part * 8 + group) * ROW_WORDS + step * 8 + i * 4 + place];
            }
        }
    }
    // Zero, which the compiler cannot know: otherwise it would compute once what every pass computes again.
    const unsigned nothing = static_cast<unsigned>(passes >> 32);
    unsigned start[SUMS] = {}, sums[TALL][WIDE][SUMS] = {};
#pragma unroll 1
    for (int pass = 0; pass < static_cast<int>(passes); ++pass) {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) start[i] += nothing;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int i = 0; i < TALL * WIDE; ++i) {
                unsigned (&part)[SUMS] = sums[i / WIDE][i % WIDE];
                multiply(part, a_part[step][i / WIDE], b_part[step][i % WIDE], step == 0 ? start : part);
            }
        }
    }
    if (blockIdx.x != 0 || threadIdx.x >= 32) return;
#pragma unroll
    for (int i = 0; i < TALL * WIDE; ++i) {
#pragma unroll
        for (int s = 0; s < 4; ++s) {
            const int row = i / WIDE * 16 + group + s / 2 * 8, column = i % WIDE * 8 + place * 2 + s % 2;
            y[row * EDGE + column] = sum_at(sums[i / WIDE][i % WIDE], s);
        }
    }
}
