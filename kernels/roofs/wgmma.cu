// The tensor cores' roof on Hopper: the warpgroups of a block multiply from shared memory without loading anything in
// the loop. Every pass computes the same product anew, 64 x 256 for each warpgroup over the 128 bytes of a row of A and
// B, in four instructions of 32 bytes each. ACCUMULATE is 32, or 16 for sums in fp16.
#ifndef ACCUMULATE
#define ACCUMULATE 32
#endif
#include <cuda_fp16.h>

#if defined(ROOFEXP_BF16)
#define INSTRUCTION "m64n256k16.f32.bf16.bf16"
#define MODIFIERS ", 1, 1, 0, 0"
#elif defined(ROOFEXP_FP16) && ACCUMULATE == 32
#define INSTRUCTION "m64n256k16.f32.f16.f16"
#define MODIFIERS ", 1, 1, 0, 0"
#elif defined(ROOFEXP_FP16)
#define INSTRUCTION "m64n256k16.f16.f16.f16"
#define MODIFIERS ", 1, 1, 0, 0"
#elif defined(ROOFEXP_TF32)
#define INSTRUCTION "m64n256k8.f32.tf32.tf32"
#define MODIFIERS ", 1, 1"
#elif defined(ROOFEXP_FP8)
#define INSTRUCTION "m64n256k32.f32.e4m3.e4m3"
#define MODIFIERS ", 1, 1"
#elif defined(ROOFEXP_INT8)
#define INSTRUCTION "m64n256k32.s32.s8.s8"
#define MODIFIERS ""
#else
#error "wgmma does bf16, fp16, tf32, fp8 and int8"
#endif

constexpr int ROWS = 64, COLUMNS = 256;  // of one warpgroup's product
constexpr int ROW_BYTES = 128, CHUNKS = ROW_BYTES / 16, STEPS = 4;
constexpr int SUMS = ROWS * COLUMNS / 128 * ACCUMULATE / 32;  // registers of a thread

#define EIGHT(s, i)                                                                                             \
    "+r"(s[i]), "+r"(s[i + 1]), "+r"(s[i + 2]), "+r"(s[i + 3]), "+r"(s[i + 4]), "+r"(s[i + 5]), "+r"(s[i + 6]), \
        "+r"(s[i + 7])
#define SIXTY_FOUR(s, i)                                                                                  \
    EIGHT(s, i), EIGHT(s, i + 8), EIGHT(s, i + 16), EIGHT(s, i + 24), EIGHT(s, i + 32), EIGHT(s, i + 40), \
        EIGHT(s, i + 48), EIGHT(s, i + 56)
#define FIRST_64                                                                       \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SECOND_64                                                                                  \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// sums = A B^T of one step, added to what is there unless this is the first step.
__device__ inline void multiply(unsigned (&sums)[SUMS], unsigned long long a, unsigned long long b, int add) {
#if ACCUMULATE == 32
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %130, 0;\nwgmma.mma_async.sync.aligned." INSTRUCTION
                 " {" FIRST_64 ", " SECOND_64 "}, %128, %129, add" MODIFIERS ";\n}\n"
                 : SIXTY_FOUR(sums, 0), SIXTY_FOUR(sums, 64)
                 : "l"(a), "l"(b), "r"(add));
#else
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\nwgmma.mma_async.sync.aligned." INSTRUCTION " {" FIRST_64
                 "}, %64, %65, add" MODIFIERS ";\n}\n"
                 : SIXTY_FOUR(sums, 0)
                 : "l"(a), "l"(b), "r"(add));
#endif
}

// Waits for all products. The sums are its operands, so that nothing that reads them can be moved before it.
__device__ inline void wait_for(unsigned (&sums)[SUMS]) {
#if ACCUMULATE == 32
    asm volatile("wgmma.wait_group.sync.aligned 0;" : SIXTY_FOUR(sums, 0), SIXTY_FOUR(sums, 64)::"memory");
#else
    asm volatile("wgmma.wait_group.sync.aligned 0;" : SIXTY_FOUR(sums, 0)::"memory");
#endif
}

// Where the tensor cores find a tile of rows of 128 bytes, stored with the 128-byte swizzle: groups of eight rows lie
// 1024 bytes apart (PTX ISA, "Matrix Descriptor Format" and "Strides": sizes in units of 16 bytes).
__device__ inline unsigned long long descriptor(const void* tile) {
    const unsigned long long address = __cvta_generic_to_shared(tile) & 0x3ffff;
    return address >> 4 | 1ull << 16 | (1024ull >> 4) << 32 | 1ull << 62;
}

// The swizzle: 16-byte chunk c of row r lies where chunk c ^ (r mod 8) would.
__device__ inline void store_swizzled(uint4* tile, const uint4* rows, int count) {
    for (int i = threadIdx.x; i < count * CHUNKS; i += blockDim.x) {
        const int row = i / CHUNKS, chunk = i % CHUNKS;
        tile[row * CHUNKS + (chunk ^ (row % 8))] = rows[i];
    }
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

// a: WARPGROUPS * 64 rows, b: 256 rows, y: WARPGROUPS * 64 x 256, from the first block.
extern "C" __global__ void __launch_bounds__(WARPGROUPS * 128, 1)
    wgmma(const uint4* __restrict__ a, const uint4* __restrict__ b, float* __restrict__ y, long long passes) {
    __shared__ alignas(1024) uint4 a_tile[WARPGROUPS * ROWS * CHUNKS];
    __shared__ alignas(1024) uint4 b_tile[COLUMNS * CHUNKS];
    store_swizzled(a_tile, a, WARPGROUPS * ROWS);
    store_swizzled(b_tile, b, COLUMNS);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the tensor cores read what threads wrote
    __syncthreads();

    const int warpgroup = threadIdx.x / 128;
    const unsigned long long a_at = descriptor(a_tile + warpgroup * ROWS * CHUNKS), b_at = descriptor(b_tile);
    unsigned sums[SUMS] = {};
#pragma unroll 1
    for (int pass = 0; pass < static_cast<int>(passes); ++pass) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int step = 0; step < STEPS; ++step) multiply(sums, a_at + 2 * step, b_at + 2 * step, step > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");  // one pass is always in flight
    }
    wait_for(sums);

    if (blockIdx.x != 0) return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS / 128; ++i) {  // pairs of columns, in two rows eight apart
        const int row = warpgroup * ROWS + warp * 16 + lane / 4 + i / 2 % 2 * 8;
        const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        y[row * COLUMNS + column] = sum_at(sums, i);
    }
}
