// y[i] = map(x[i], ...): every thread loads UNROLL vectors of each input before it uses the first, and any grid covers
// arrays of any length. `map` is called with pieces, and with single elements at the end.
#pragma once
#include "vector.cuh"

template <typename Map, typename T>
__device__ inline T call(Map map, const T (&x)[1]) {
    return map(x[0]);
}
template <typename Map, typename T>
__device__ inline T call(Map map, const T (&x)[2]) {
    return map(x[0], x[1]);
}

template <int INPUTS, typename Map>
__device__ inline Vector map_vector(Map map, const Vector (&inputs)[INPUTS]) {
    Vector result;
#pragma unroll
    for (int p = 0; p < VECTOR / LANES; ++p) {
        piece taken[INPUTS];
#pragma unroll
        for (int k = 0; k < INPUTS; ++k) taken[k] = inputs[k].at(p);
        result.at(p) = call(map, taken);
    }
    return result;
}

// An input may be y itself.
template <typename Map, typename... Inputs>
__device__ inline void elementwise(real* y, long long n, Map map, const Inputs*... inputs) {
    constexpr int INPUTS = sizeof...(inputs);
    const real* const from[INPUTS] = {inputs...};
    const long long vectors = whole_vectors(n, y, inputs...);
#pragma unroll 1
    for (long long first = first_vector(); first < vectors; first += vector_stride()) {
        Vector part[UNROLL][INPUTS];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const long long at = first + i * blockDim.x;
#pragma unroll
            for (int k = 0; k < INPUTS; ++k) {
                if (at < vectors) part[i][k] = load_vector(from[k], at);
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const long long at = first + i * blockDim.x;
            if (at < vectors) store_vector(y, at, map_vector(map, part[i]));
        }
    }
#pragma unroll 1
    for (long long i = vectors * VECTOR + first_element(); i < n; i += element_stride()) {
        real taken[INPUTS];
#pragma unroll
        for (int k = 0; k < INPUTS; ++k) taken[k] = from[k][i];
        y[i] = call(map, taken);
    }
}

// A map that works in the accumulation type, made of a function of one or two numbers.
template <typename Function>
struct Widened {
    Function function;

    __device__ real operator()(real a) const { return from_accum(function(to_accum(a))); }
    __device__ real operator()(real a, real b) const { return from_accum(function(to_accum(a), to_accum(b))); }
#if defined(ROOFEXP_FP16) || defined(ROOFEXP_BF16)
    __device__ piece operator()(piece a) const { return {(*this)(a.x), (*this)(a.y)}; }
    __device__ piece operator()(piece a, piece b) const { return {(*this)(a.x, b.x), (*this)(a.y, b.y)}; }
#endif
};

template <typename Function>
__device__ inline Widened<Function> widened(Function function) {
    return {function};
}
