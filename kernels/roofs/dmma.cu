// The tensor cores' roof in fp64: every warp adds the same 32 x 32 product over 16 columns of A and B to its sums,
// PASSES times, from registers. In the instruction of Ampere, 8 x 8 x 4, and in the largest of Hopper, 16 x 8 x 16.

constexpr int EDGE = 32, DEPTH = 16;

// a and b: 32 rows of 16; y: passes A B^T, from the first warp.
extern "C" __global__ void dmma_8x8x4(const double* __restrict__ a, const double* __restrict__ b,
                                      double* __restrict__ y, long long passes) {
    constexpr int PARTS = EDGE / 8, STEPS = DEPTH / 4;
    const int lane = threadIdx.x % 32, group = lane / 4, place = lane % 4;
    double a_part[PARTS][STEPS], b_part[PARTS][STEPS], sums[PARTS][PARTS][2] = {};
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            a_part[part][step] = a[(part * 8 + group) * DEPTH + step * 4 + place];
            b_part[part][step] = b[(part * 8 + group) * DEPTH + step * 4 + place];
        }
    }
#pragma unroll 1
    for (int pass = 0; pass < static_cast<int>(passes); ++pass) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int i = 0; i < PARTS * PARTS; ++i) {
                double (&part)[2] = sums[i / PARTS][i % PARTS];
                asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                             : "+d"(part[0]), "+d"(part[1])
                             : "d"(a_part[i / PARTS][step]), "d"(b_part[i % PARTS][step]));
            }
        }
    }
    if (blockIdx.x != 0 || threadIdx.x >= 32) return;
#pragma unroll
    for (int i = 0; i < PARTS * PARTS; ++i) {
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            y[(i / PARTS * 8 + group) * EDGE + i % PARTS * 8 + place * 2 + s] = sums[i / PARTS][i % PARTS][s];
        }
    }
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void dmma_16x8x16(const double* __restrict__ a, const double* __restrict__ b,
                                        double* __restrict__ y, long long passes) {
    constexpr int TALL = EDGE / 16, WIDE = EDGE / 8;
    const int lane = threadIdx.x % 32, group = lane / 4, place = lane % 4;
    double a_part[TALL][8], b_part[WIDE][4], sums[TALL][WIDE][4] = {};
#pragma unroll
    for (int part = 0; part < TALL; ++part) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {  // rows eight apart first, then the next four columns
            a_part[part][i] = a[(part * 16 + group + i % 2 * 8) * DEPTH + i / 2 * 4 + place];
        }
    }
#pragma unroll
    for (int part = 0; part < WIDE; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) b_part[part][i] = b[(part * 8 + group) * DEPTH + i * 4 + place];
    }
#pragma unroll 1
    for (int pass = 0; pass < static_cast<int>(passes); ++pass) {
#pragma unroll
        for (int i = 0; i < TALL * WIDE; ++i) {
            double (&part)[4] = sums[i / WIDE][i % WIDE];
            const double (&left)[8] = a_part[i / WIDE];
            const double (&right)[4] = b_part[i % WIDE];
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
                "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
                : "+d"(part[0]), "+d"(part[1]), "+d"(part[2]), "+d"(part[3])
                : "d"(left[0]), "d"(left[1]), "d"(left[2]), "d"(left[3]), "d"(left[4]), "d"(left[5]), "d"(left[6]),
                  "d"(left[7]), "d"(right[0]), "d"(right[1]), "d"(right[2]), "d"(right[3]));
        }
    }
    if (blockIdx.x != 0 || threadIdx.x >= 32) return;
#pragma unroll
    for (int i = 0; i < TALL * WIDE; ++i) {
#pragma unroll
        for (int s = 0; s < 4; ++s) {
            const int row = i / WIDE * 16 + group + s / 2 * 8, column = i % WIDE * 8 + place * 2 + s % 2;
            y[row * EDGE + column] = sums[i / WIDE][i % WIDE][s];
        }
    }
}
#endif
