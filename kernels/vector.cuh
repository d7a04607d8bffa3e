// 16-byte access: the widest a thread can load or store at once.
#pragma once
#include "common.cuh"

#ifndef UNROLL
#define UNROLL 4  // vectors that a thread has in flight
#endif

constexpr int VECTOR = 16 / sizeof(real);  // elements in 16 bytes

struct alignas(16) Vector {
    real element[VECTOR];

    __device__ piece& at(int index) { return reinterpret_cast<piece*>(element)[index]; }
    __device__ const piece& at(int index) const { return reinterpret_cast<const piece*>(element)[index]; }
};

__device__ inline Vector load_vector(const real* elements, long long index) {
    Vector vector;
    reinterpret_cast<uint4&>(vector) = reinterpret_cast<const uint4*>(elements)[index];
    return vector;
}

__device__ inline void store_vector(real* elements, long long index, const Vector& vector) {
    const uint4& raw = reinterpret_cast<const uint4&>(vector);
    // written out, because the compiler sometimes splits an assignment into four stores
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(elements + index * VECTOR), "r"(raw.x), "r"(raw.y),
                 "r"(raw.z), "r"(raw.w)
                 : "memory");
}

template <typename... Pointers>
__device__ inline bool all_aligned(const Pointers*... pointers) {
    return ((reinterpret_cast<size_t>(pointers) % 16 == 0) && ...);
}

// How many whole vectors n elements hold. None where an array is not aligned: the scalar loop then does all of them.
template <typename... Pointers>
__device__ inline long long whole_vectors(long long n, const Pointers*... pointers) {
    return all_aligned(pointers...) ? n / VECTOR : 0;
}

// A thread's vectors lie a block apart, UNROLL of them, then a grid's step further. Any grid covers everything.
__device__ inline long long first_vector() {
    return static_cast<long long>(blockIdx.x) * blockDim.x * UNROLL + threadIdx.x;
}

__device__ inline long long vector_stride() { return static_cast<long long>(gridDim.x) * blockDim.x * UNROLL; }

// Scalar loops: a thread's first element and the step to its next.
__device__ inline long long first_element() { return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; }

__device__ inline long long element_stride() { return static_cast<long long>(gridDim.x) * blockDim.x; }
