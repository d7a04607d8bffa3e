// The roof of 32-bit integer arithmetic: CHAINS independent chains of multiply-adds in registers,
// x = -a x + b with a = 1 that the compiler cannot know, so that every chain goes to and fro between two values. y: the
// sum of a thread's chains, which after an even number of steps is what it was at first.
static_assert(UNROLL % 2 == 0, "steps come in pairs");

extern "C" __global__ void imad_chains(int* y, long long a, long long b, long long n, long long passes) {
    const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const int start = static_cast<int>(thread / 32 % 64);  // warps work on different numbers
    const int factor = thread < n ? -static_cast<int>(a) : 0, addend = static_cast<int>(b) * (start + 1);
    int x[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) x[c] = start * CHAINS + c;
#pragma unroll 1
    for (int pass = 0; pass < static_cast<int>(passes); ++pass) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) x[c] = factor * x[c] + addend;
        }
    }
    int sum = 0;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) sum += x[c];
    if (thread < n) y[thread] = sum;
}
