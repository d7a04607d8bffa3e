// y = x + c (north + south + west + east - 4 x) on the inner points of a grid, y = x on its border. A thread computes a
// strip of STRIP rows, as wide as 16 bytes where rows are aligned; west and east come from the cache.
#include "vector.cuh"

constexpr int STRIP = 4;

// Cells of a row that a thread moves at once: 16 bytes of them, or one.
template <int WIDTH>
struct alignas(WIDTH * sizeof(real)) Cells {
    real cell[WIDTH];

    __device__ void load(const real* from) {
        if constexpr (WIDTH == 1) {
            cell[0] = from[0];
        } else {
            reinterpret_cast<Vector&>(cell) = load_vector(from, 0);
        }
    }

    __device__ void store(real* to) const {
        if constexpr (WIDTH == 1) {
            to[0] = cell[0];
        } else {
            store_vector(to, 0, reinterpret_cast<const Vector&>(cell));
        }
    }
};

template <int WIDTH>
__device__ void one_step(const real* __restrict__ x, real* __restrict__ y, accum c, long long rows, long long columns) {
    const unsigned across = (columns + blockDim.x * WIDTH - 1) / (blockDim.x * WIDTH);
    const unsigned tasks = across * static_cast<unsigned>((rows + STRIP - 1) / STRIP);
#pragma unroll 1
    for (unsigned task = blockIdx.x; task < tasks; task += gridDim.x) {
        const long long top = static_cast<long long>(task / across) * STRIP;
        const long long left = (static_cast<long long>(task % across) * blockDim.x + threadIdx.x) * WIDTH;
        if (left >= columns) continue;
        Cells<WIDTH> line[STRIP + 2];  // with the row above and the row below
        real west[STRIP], east[STRIP];
#pragma unroll
        for (int i = 0; i < STRIP + 2; ++i) {
            const long long row = top + i - 1;
            if (row >= 0 && row < rows) line[i].load(x + row * columns + left);
        }
#pragma unroll
        for (int i = 0; i < STRIP; ++i) {
            const long long row = top + i;
            if (row < rows && left > 0) west[i] = x[row * columns + left - 1];
            if (row < rows && left + WIDTH < columns) east[i] = x[row * columns + left + WIDTH];
        }
#pragma unroll
        for (int i = 0; i < STRIP; ++i) {
            const long long row = top + i;
            if (row >= rows) continue;
            const bool border_row = row == 0 || row == rows - 1;
            Cells<WIDTH> result;
#pragma unroll
            for (int e = 0; e < WIDTH; ++e) {
                const bool border = border_row || left + e == 0 || left + e == columns - 1;
                const Cells<WIDTH>& same = line[i + 1];
                const accum here = to_accum(same.cell[e]);
                const accum beside = to_accum(e == 0 ? west[i] : same.cell[e == 0 ? 0 : e - 1]) +
                                     to_accum(e == WIDTH - 1 ? east[i] : same.cell[e == WIDTH - 1 ? e : e + 1]);
                const accum around = to_accum(line[i].cell[e]) + to_accum(line[i + 2].cell[e]) + beside;
                result.cell[e] = border ? same.cell[e] : from_accum(here + c * (around - 4 * here));
            }
            result.store(y + row * columns + left);
        }
    }
}

extern "C" __global__ void stencil(const real* __restrict__ x, real* __restrict__ y, accum c, long long rows,
                                   long long columns) {
    if (columns % VECTOR == 0 && all_aligned(x, y)) {
        one_step<VECTOR>(x, y, c, rows, columns);
    } else {
        one_step<1>(x, y, c, rows, columns);
    }
}
