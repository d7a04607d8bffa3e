// Records of eight values, split into eight arrays (y[field][record] = x[record][field]) and joined again. Strided:
// neighbouring threads touch values a record apart, a sector of 32 bytes for each value of four. Staged: a block takes
// 256 records through shared memory, and both sides are touched as they lie.
#include "common.cuh"

constexpr int FIELDS = 8, TILE = 256, UNROLL = 4;

__device__ inline int spread(int index) { return index + index / 32; }  // so that no two threads meet in a bank

// blockIdx.y is the field.
extern "C" __global__ void split_strided(const float* __restrict__ x, float* __restrict__ y, long long records) {
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x * UNROLL + threadIdx.x;
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        const long long record = first + i * blockDim.x;
        if (record < records) y[blockIdx.y * records + record] = x[record * FIELDS + blockIdx.y];
    }
}

extern "C" __global__ void join_strided(const float* __restrict__ x, float* __restrict__ y, long long records) {
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x * UNROLL + threadIdx.x;
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        const long long record = first + i * blockDim.x;
        if (record < records) y[record * FIELDS + blockIdx.y] = x[blockIdx.y * records + record];
    }
}

// Calls use(index, at) for the values of a tile of records that fall to this thread, four at a time and side by side.
template <typename Use>
__device__ inline void each_four(long long first_record, long long records, Use use) {
#pragma unroll
    for (int i = 0; i < FIELDS / 4; ++i) {
        const int index = 4 * (threadIdx.x + i * TILE);
        const long long at = first_record * FIELDS + index;
        if (at < records * FIELDS) use(index, at);
    }
}

extern "C" __global__ void __launch_bounds__(TILE)
    split_staged(const float* __restrict__ x, float* __restrict__ y, long long records) {
    __shared__ float kept[TILE * FIELDS + TILE * FIELDS / 32];
    const long long first = static_cast<long long>(blockIdx.x) * TILE, record = first + threadIdx.x;
    each_four(first, records, [&](int index, long long at) {
        const float4 four = *reinterpret_cast<const float4*>(x + at);
        kept[spread(index)] = four.x;
        kept[spread(index + 1)] = four.y;
        kept[spread(index + 2)] = four.z;
        kept[spread(index + 3)] = four.w;
    });
    __syncthreads();
    if (record >= records) return;
#pragma unroll
    for (int field = 0; field < FIELDS; ++field) {
        y[field * records + record] = kept[spread(threadIdx.x * FIELDS + field)];
    }
}

extern "C" __global__ void __launch_bounds__(TILE)
    join_staged(const float* __restrict__ x, float* __restrict__ y, long long records) {
    __shared__ float kept[TILE * FIELDS + TILE * FIELDS / 32];
    const long long first = static_cast<long long>(blockIdx.x) * TILE, record = first + threadIdx.x;
    if (record < records) {
#pragma unroll
        for (int field = 0; field < FIELDS; ++field) {
            kept[spread(threadIdx.x * FIELDS + field)] = x[field * records + record];
        }
    }
    __syncthreads();
    each_four(first, records, [&](int index, long long at) {
        *reinterpret_cast<float4*>(y + at) = {kept[spread(index)], kept[spread(index + 1)], kept[spread(index + 2)],
                                              kept[spread(index + 3)]};
    });
}
