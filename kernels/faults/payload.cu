// y[record] = the sum of a payload of 16 values in a record of 32. A payload that begins at OFFSET = 0 fills two
// sectors of 32 bytes; from 12 on it straddles three, in both halves of the record.
#include "common.cuh"

constexpr int RECORD = 32, PAYLOAD = 16, UNROLL = 4;

extern "C" __global__ void payload_sums(const float* __restrict__ x, float* __restrict__ y, long long records) {
    const int within = threadIdx.x % PAYLOAD, per_block = blockDim.x / PAYLOAD;
    const long long first = static_cast<long long>(blockIdx.x) * per_block * UNROLL + threadIdx.x / PAYLOAD;
    float value[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        const long long record = first + i * per_block;
        value[i] = record < records ? x[record * RECORD + OFFSET + within] : 0;
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
#pragma unroll
        for (int mask = PAYLOAD / 2; mask > 0; mask /= 2) value[i] += __shfl_xor_sync(0xffffffffu, value[i], mask);
        const long long record = first + i * per_block;
        if (within == 0 && record < records) y[record] = value[i];
    }
}
