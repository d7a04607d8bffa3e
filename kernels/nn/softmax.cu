// y = softmax of each row of x, in two ways. A block per row, or fewer blocks.
#include "row.cuh"

__device__ inline accum larger(accum a, accum b) { return a > b ? a : b; }

// The textbook's way: the largest element, then the sum of the exponentials, then the quotients. Each is a pass over x,
// with a reduction over the block in between; the later passes find the row in a cache.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
    softmax_block(const real* __restrict__ x, real* __restrict__ y, long long rows, long long columns) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const real* const in = x + row * columns;
        const Row parts(in, y + row * columns, columns);
        Kept kept;
        accum largest = LOWEST, sum = 0;
        read_row(parts, in, kept, [&](accum value) { largest = larger(value, largest); });
        largest = block_max(largest, LOWEST);
        read_row(parts, in, kept, [&](accum value) { sum += exponential(value - largest); });
        const accum factor = 1 / block_sum(sum);
        write_row(parts, in, y + row * columns, kept,
                  [&](accum value) { return exponential(value - largest) * factor; });
    }
}

// The largest element so far, and the sum of exp(element - largest). Two of them combine into one.
struct Running {
    accum largest, sum;

    __device__ Running combined(const Running& other) const {
        const accum top = larger(largest, other.largest);
        return {top, sum * exponential(largest - top) + other.sum * exponential(other.largest - top)};
    }
};

template <>
__device__ inline Running from_lane(Running value, int lane_mask) {
    return {from_lane(value.largest, lane_mask), from_lane(value.sum, lane_mask)};
}

// The largest element and the sum in one pass, rescaling the sum when a larger element turns up; x is read once where a
// row fits in registers.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)
    softmax_online(const real* __restrict__ x, real* __restrict__ y, long long rows, long long columns) {
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const real* const in = x + row * columns;
        real* const out = y + row * columns;
        const Row parts(in, out, columns);
        Kept kept;
        Running running = {LOWEST, 0};
        for (long long first = threadIdx.x; first < parts.vectors; first += Kept::stride()) {
            kept.load(in + parts.head, parts, first);
            accum top = running.largest;  // of this step, so that the sum is rescaled once for all its vectors
            kept.each_element(parts, first, [&](accum value) { top = larger(top, value); });
            accum sum = running.sum * exponential(running.largest - top);
            kept.each_element(parts, first, [&](accum value) { sum += exponential(value - top); });
            running = {top, sum};
        }
        parts.each_scalar([&](long long column) { running = running.combined({to_accum(in[column]), accum(1)}); });
        running =
            block_reduce(running, Running{LOWEST, 0}, [](const Running& a, const Running& b) { return a.combined(b); });
        const accum factor = 1 / running.sum;
        write_row(parts, in, out, kept, [&](accum value) { return exponential(value - running.largest) * factor; });
    }
}
