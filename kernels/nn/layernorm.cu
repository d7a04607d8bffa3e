// y = (x - mean(x)) / sqrt(var(x) + eps) * w + b for each row of x. A block per row, or fewer blocks.
#include "row.cuh"

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
    layernorm(const real* __restrict__ x, const real* __restrict__ w, const real* __restrict__ b, real* __restrict__ y,
              accum eps, long long rows, long long columns) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const real* const in = x + row * columns;
        real* const out = y + row * columns;
        const Row parts(in, out, columns);
        Kept kept;
        accum sum = 0, squares = 0;
        read_row(parts, in, kept, [&](accum value) { sum += value; });
        const accum mean = block_sum(sum) / columns;
        // deviations are squared in a pass of their own: the mean of squares less the square of the mean cancels
        reread_row(parts, in, kept, [&](accum value) { squares += (value - mean) * (value - mean); });
        const accum factor = 1 / sqrt(block_sum(squares) / columns + eps);
        write_row(
            parts, in, out, kept,
            [&](accum value, accum weight, accum bias) { return (value - mean) * factor * weight + bias; }, w, b);
    }
}
