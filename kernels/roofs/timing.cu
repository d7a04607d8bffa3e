// What stands around a timed part: a gate that holds the stream, marks of every SM's clock, a sweep through the cache,
// and the empty kernel.

__device__ inline unsigned long long nanoseconds() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// Holds the stream until the host sets `released`, and never longer than timeout_ns: a host that dies or falls behind
// must not leave the GPU hanging. One thread.
extern "C" __global__ void gate(const volatile int* released, long long timeout_ns) {
    const unsigned long long start = nanoseconds();
    while (*released == 0 && nanoseconds() - start < static_cast<unsigned long long>(timeout_ns)) __nanosleep(100);
}

// Notes the cycle counter and the time of the SM that the block runs on. The time moves in steps of up to a
// microsecond; both are taken just after a step, so that the step's width is not in the difference of two marks.
extern "C" __global__ void mark_clock(ulonglong2* marks, long long sms) {
    unsigned sm;
    asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
    if (threadIdx.x != 0 || sm >= sms) return;
    const unsigned long long first = nanoseconds();
    unsigned long long time = first, cycles = 0;
    for (int reading = 0; reading < 4096 && time == first; ++reading) {  // a timer that stands still must not hang
        time = nanoseconds();
        cycles = clock64();
    }
    marks[sm] = make_ulonglong2(cycles, time);  // one store: of the blocks on an SM, one leaves both of its values
}

// Reads the whole buffer: what was in L2 is gone, and nothing is left there that must be written back.
extern "C" __global__ void sweep_cache(const float4* buffer, long long count, float* sink) {
    float sum = 0;
    const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
#pragma unroll 4
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        const float4 value = __ldcg(buffer + i);
        sum += (value.x + value.y) + (value.z + value.w);
    }
    if (sum == 1.2345e30f) *sink = sum;  // never, but the compiler cannot know
}

extern "C" __global__ void empty() {}
