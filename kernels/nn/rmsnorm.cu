// y = x / sqrt(mean(x^2) + eps) * w for each row of x. A block per row, or fewer blocks.
#include "row.cuh"

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
    rmsnorm(const real* __restrict__ x, const real* __restrict__ w, real* __restrict__ y, accum eps, long long rows,
            long long columns) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const real* const in = x + row * columns;
        real* const out = y + row * columns;
        const Row parts(in, out, columns);
        Kept kept;
        accum sum = 0;
        read_row(parts, in, kept, [&](accum value) { sum += value * value; });
        const accum factor = 1 / sqrt(block_sum(sum) / columns + eps);
        write_row(parts, in, out, kept, [&](accum value, accum weight) { return value * factor * weight; }, w);
    }
}
