// One row per block, of any length and at any address: a scalar head up to the first 16-byte boundary, whole vectors,
// and a scalar tail. A thread keeps KEEP vectors in registers, so that a row of up to KEEP * blockDim.x vectors is read
// from memory once, however many passes are made over it. At most MOST_THREADS in a block.
#pragma once
#include "reduce.cuh"
#include "vector.cuh"

#ifndef KEEP
#define KEEP 4
#endif

constexpr int MOST_THREADS = 512;

struct Row {
    long long head, vectors, elements;

    // `in` and `out` are the row's first elements. Where they lie differently to the boundary, all is scalar.
    __device__ Row(const real* in, const real* out, long long columns) : head(columns), vectors(0), elements(columns) {
        const long long past_boundary = reinterpret_cast<size_t>(in) % 16 / sizeof(real);
        const long long to_boundary = past_boundary == 0 ? 0 : VECTOR - past_boundary;
        if (reinterpret_cast<size_t>(in) % 16 != reinterpret_cast<size_t>(out) % 16 || to_boundary >= columns) return;
        head = to_boundary;
        vectors = (columns - head) / VECTOR;
    }

    // Calls use(column) for the elements outside the vectors, shared out among the threads.
    template <typename Use>
    __device__ void each_scalar(Use use) const {
        for (long long i = threadIdx.x; i < head; i += blockDim.x) use(i);
        for (long long i = head + vectors * VECTOR + threadIdx.x; i < elements; i += blockDim.x) use(i);
    }
};

// A thread's vectors of one step over a row: they lie a block apart.
struct Kept {
    Vector vector[KEEP];

    __device__ static long long stride() { return static_cast<long long>(KEEP) * blockDim.x; }

    __device__ void load(const real* body, const Row& row, long long first) {
#pragma unroll
        for (int i = 0; i < KEEP; ++i) {
            const long long at = first + i * blockDim.x;
            if (at < row.vectors) vector[i] = load_vector(body, at);
        }
    }

    // Calls use(i, at) for each of the thread's vectors that lie in the row: vector[i] is the row's vector `at`.
    template <typename Use>
    __device__ void each(const Row& row, long long first, Use use) const {
#pragma unroll
        for (int i = 0; i < KEEP; ++i) {
            const long long at = first + i * blockDim.x;
            if (at < row.vectors) use(i, at);
        }
    }

    template <typename Use>
    __device__ void each_element(const Row& row, long long first, Use use) const {
        each(row, first, [&](int i, long long) {
#pragma unroll
            for (int e = 0; e < VECTOR; ++e) use(to_accum(vector[i].element[e]));
        });
    }
};

// Calls use(value) once for each element of the row; leaves the vectors of a row that fits there in `kept`.
template <typename Use>
__device__ void read_row(const Row& row, const real* in, Kept& kept, Use use) {
    for (long long first = threadIdx.x; first < row.vectors; first += Kept::stride()) {
        kept.load(in + row.head, row, first);
        kept.each_element(row, first, use);
    }
    row.each_scalar([&](long long column) { use(to_accum(in[column])); });
}

// The same after read_row: memory is read again only where the row did not fit in `kept`.
template <typename Use>
__device__ void reread_row(const Row& row, const real* in, Kept& kept, Use use) {
    for (long long first = threadIdx.x; first < row.vectors; first += Kept::stride()) {
        if (row.vectors > Kept::stride()) kept.load(in + row.head, row, first);
        kept.each_element(row, first, use);
    }
    row.each_scalar([&](long long column) { use(to_accum(in[column])); });
}

// A vector that may lie at any address.
__device__ inline Vector load_anywhere(const real* elements, long long index) {
    if (all_aligned(elements)) return load_vector(elements, index);
    Vector vector;
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) vector.element[e] = elements[index * VECTOR + e];
    return vector;
}

// map(value), map(value, weight) or map(value, weight, bias), as many as there are.
template <int WEIGHTS, typename T, typename Map>
__device__ inline accum map_with(Map map, T value, const T (&weights)[WEIGHTS + 1]) {
    if constexpr (WEIGHTS == 0) return map(to_accum(value));
    if constexpr (WEIGHTS == 1) return map(to_accum(value), to_accum(weights[0]));
    if constexpr (WEIGHTS == 2) return map(to_accum(value), to_accum(weights[0]), to_accum(weights[1]));
}

template <int WEIGHTS, typename Map>
__device__ inline Vector map_vector_with(Map map, const Vector& in, const Vector (&weights)[WEIGHTS + 1]) {
    Vector out;
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
        real taken[WEIGHTS + 1];
#pragma unroll
        for (int k = 0; k < WEIGHTS; ++k) taken[k] = weights[k].element[e];
        out.element[e] = from_accum(map_with<WEIGHTS>(map, in.element[e], taken));
    }
    return out;
}

// Writes out[column] = map(in[column], weights[column]...) after read_row, likewise. At most two weights.
template <typename Map, typename... Weights>
__device__ void write_row(const Row& row, const real* in, real* out, Kept& kept, Map map, const Weights*... weights) {
    constexpr int WEIGHTS = sizeof...(weights);
    const real* const from[WEIGHTS + 1] = {weights...};
    for (long long first = threadIdx.x; first < row.vectors; first += Kept::stride()) {
        if (row.vectors > Kept::stride()) kept.load(in + row.head, row, first);
        kept.each(row, first, [&](int i, long long at) {
            Vector loaded[WEIGHTS + 1];
#pragma unroll
            for (int k = 0; k < WEIGHTS; ++k) loaded[k] = load_anywhere(from[k] + row.head, at);
            store_vector(out + row.head, at, map_vector_with<WEIGHTS>(map, kept.vector[i], loaded));
        });
    }
    row.each_scalar([&](long long column) {
        real taken[WEIGHTS + 1];
#pragma unroll
        for (int k = 0; k < WEIGHTS; ++k) taken[k] = from[k][column];
        out[column] = from_accum(map_with<WEIGHTS>(map, in[column], taken));
    });
}
