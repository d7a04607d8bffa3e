// A reduction over the whole grid in one launch: the last block to finish combines what all blocks left behind.
#pragma once
#include "common.cuh"
#include "reduce.cuh"

constexpr unsigned MOST_BLOCKS = 65536;

__device__ unsigned blocks_done;  // the last block of a launch takes it back to zero
__device__ accum of_block[MOST_BLOCKS];

// True on the one thread of the grid that then has the result in `value`. Every thread of every block must call it.
template <typename Combine>
__device__ bool grid_reduce(accum& value, accum identity, Combine combine) {
    __shared__ bool last;
    if (gridDim.x > MOST_BLOCKS) __trap();
    value = block_reduce(value, identity, combine);
    if (threadIdx.x == 0) {
        of_block[blockIdx.x] = value;
        __threadfence();
        last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return false;
    __threadfence();
    value = identity;
    for (unsigned block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
        value = combine(value, __ldcg(&of_block[block]));
    }
    value = block_reduce(value, identity, combine);
    return threadIdx.x == 0;
}
