// K multiply-adds y = a y + b per element, from y = x: from a copy to the arithmetic roof. The elements that a thread
// holds are independent, which is what keeps the units busy.
#include "elementwise.cuh"

extern "C" __global__ void intensity(const real* x, real* y, accum a, accum b, long long n) {
    const long long vectors = whole_vectors(n, x, y);
    const piece factor = filled<piece>(a), addend = filled<piece>(b);
    constexpr int PIECES = VECTOR / LANES;
#pragma unroll 1
    for (long long first = first_vector(); first < vectors; first += vector_stride()) {
        Vector part[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const long long at = first + i * blockDim.x;
            if (at < vectors) part[i] = load_vector(x, at);
        }
#pragma unroll 16
        for (int k = 0; k < K; ++k) {
#pragma unroll
            for (int i = 0; i < UNROLL * PIECES; ++i) {
                piece& value = part[i / PIECES].at(i % PIECES);
                value = multiply_add(factor, value, addend);
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const long long at = first + i * blockDim.x;
            if (at < vectors) store_vector(y, at, part[i]);
        }
    }
#pragma unroll 1
    for (long long i = vectors * VECTOR + first_element(); i < n; i += element_stride()) {
        real value = x[i];
        for (int k = 0; k < K; ++k) value = multiply_add(filled<real>(a), value, filled<real>(b));
        y[i] = value;
    }
}
