// What the stopwatch puts around a kernel: a gate that holds the stream, marks of every SM's clock, a sweep through
// the cache, and a kernel that does nothing.

// Waits until the host writes to `released` (host memory), or until `timeout_ns` are over.
extern "C" __global__ void gate(const volatile int* released, long long timeout_ns) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        if (*released) return;
        __nanosleep(200);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (static_cast<long long>(now - start) < timeout_ns);
}

// Each SM's cycle counter and the time in ns, noted together: marks[2 * SM] and marks[2 * SM + 1].
extern "C" __global__ void mark_clock(ulonglong2* marks) {
    if (threadIdx.x) return;
    unsigned int sm;
    unsigned long long cycles, nanoseconds;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    marks[sm] = make_ulonglong2(cycles, nanoseconds);
}

// Reads `count` 16-byte words. The sum is written only if it is a value that no sum of the buffer has.
extern "C" __global__ void sweep_cache(const float4* buffer, long long count, float* sink) {
    float sum = 0.0f;
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
        const float4 word = __ldcg(buffer + i);
        sum += word.x + word.y + word.z + word.w;
    }
    if (sum == -1.0f) *sink = sum;
}

extern "C" __global__ void empty() {}
