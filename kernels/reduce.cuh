// Reductions over a warp and over a block. Every thread of the block must take part and gets the result.
// The block is one-dimensional and a multiple of 32 threads.
#pragma once

template <typename T>
__device__ inline T from_lane(T value, int lane_mask) {
    return __shfl_xor_sync(0xffffffffu, value, lane_mask);
}

template <typename T, typename Combine>
__device__ inline T warp_reduce(T value, Combine combine) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) value = combine(value, from_lane(value, mask));
    return value;
}

template <typename T, typename Combine>
__device__ inline T block_reduce(T value, T identity, Combine combine) {
    __shared__ T of_warp[32];
    const int lane = threadIdx.x % 32;
    value = warp_reduce(value, combine);
    __syncthreads();  // a call before this one may still be reading
    if (lane == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = lane < blockDim.x / 32 ? of_warp[lane] : identity;
    return warp_reduce(value, combine);
}

template <typename T>
__device__ inline T block_sum(T value) {
    return block_reduce(value, T(0), [](T a, T b) { return a + b; });
}

template <typename T>
__device__ inline T block_max(T value, T lowest) {
    return block_reduce(value, lowest, [](T a, T b) { return a > b ? a : b; });
}
