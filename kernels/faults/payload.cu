// y[record] = the sum of a payload of 32 values in a record of 64, loaded as eight times four. A payload that begins at
// OFFSET = 0 fills one line of four sectors; one that begins at 12 straddles two lines, and five sectors.
#include "common.cuh"

constexpr int RECORD = 64, PAYLOAD = 32, FOURS = PAYLOAD / 4, UNROLL = 8;

extern "C" __global__ void payload_sums(const float* __restrict__ x, float* __restrict__ y, long long records) {
    const int within = threadIdx.x % FOURS, per_block = blockDim.x / FOURS;
    const long long first = static_cast<long long>(blockIdx.x) * per_block * UNROLL + threadIdx.x / FOURS;
    const float4* from = reinterpret_cast<const float4*>(x + first * RECORD + OFFSET) + within;
    const int left = records - first < per_block * UNROLL ? records - first : per_block * UNROLL;  // records from here on
    float4 part[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        part[i] = i * per_block < left ? from[i * per_block * (RECORD / 4)] : float4{0, 0, 0, 0};
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        float sum = (part[i].x + part[i].y) + (part[i].z + part[i].w);
#pragma unroll
        for (int mask = FOURS / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
        if (within == 0 && i * per_block < left) y[first + i * per_block] = sum;
    }
}
