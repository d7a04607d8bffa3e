// The bandwidth roofs: read, write, copy and triad. REPEATS passes are made inside one launch, so that arrays which fit
// in L2 are not a matter of launching. They read past L1, and every block reads its own tiles again: lines that two SMs
// want within a short time are fetched from L2 once for both (its request coalescer), which is not L2's bandwidth.
// ROTATE gives a block other tiles in every pass instead, so that each line is read by the SMs of both of L2's
// partitions in turn. LOADS and STORES say which instruction moves the vectors.
#ifndef UNROLL
#define UNROLL 8
#endif
#ifndef REPEATS
#define REPEATS 1
#endif
#ifndef ROTATE
#define ROTATE 0
#endif
#ifndef LOADS
#define LOADS 0  // 1: streaming, lines are the first to be thrown out; 2: past L1; 3: read-only, past L1
#endif
#ifndef STORES
#define STORES 0  // 1: streaming
#endif
#include "grid.cuh"
#include "vector.cuh"

constexpr unsigned STEP = 37;  // tiles from pass to pass; without a common factor with SMs, every SM comes to all tiles

__device__ inline Vector read_vector(const real* elements, long long index) {
    const uint4* const from = reinterpret_cast<const uint4*>(elements) + index;
    Vector vector;
    uint4& raw = reinterpret_cast<uint4&>(vector);
    if (REPEATS > 1 || LOADS == 2) {  // what is read again comes from L2, not from L1
        raw = __ldcg(from);
    } else if (LOADS == 1) {
        raw = __ldcs(from);
    } else if (LOADS == 3) {
        asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
            : "l"(from));
    } else {
        raw = *from;
    }
    return vector;
}

__device__ inline void write_vector(real* elements, long long index, const Vector& vector) {
    if (STORES == 1) {
        __stcs(reinterpret_cast<uint4*>(elements) + index, reinterpret_cast<const uint4&>(vector));
    } else {
        store_vector(elements, index, vector);
    }
}

// Calls use(first, whole) for every tile of UNROLL * blockDim.x vectors, REPEATS times: the thread's vectors are first,
// first + blockDim.x, ..., all of them inside the array where the tile is whole.
template <typename Use>
__device__ inline void each_tile(long long vectors, Use use) {
    // Zero, which the compiler cannot know: otherwise it would load once what every pass loads again.
    const long long nothing = vectors >> 62;
    const unsigned per_tile = UNROLL * blockDim.x;
    const unsigned tiles = (vectors + per_tile - 1) / per_tile;
#pragma unroll 1
    for (unsigned pass = 0; pass < REPEATS; ++pass) {
#pragma unroll 1
        for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const unsigned taken = ROTATE ? (tile + pass * STEP) % tiles : tile;
            const long long start = static_cast<long long>(taken) * per_tile + pass * nothing;
            use(start + threadIdx.x, start + per_tile <= vectors);
        }
    }
}

// Calls use(i, at) for the thread's vectors of a tile.
template <typename Use>
__device__ inline void each_vector(long long first, bool whole, long long vectors, Use use) {
    if (whole) {
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) use(i, first + i * blockDim.x);
    } else {
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            if (first + i * blockDim.x < vectors) use(i, first + i * blockDim.x);
        }
    }
}

// Calls use(i) for the elements after the last whole vector, REPEATS times.
template <typename Use>
__device__ inline void each_rest(long long vectors, long long n, Use use) {
    const long long i = vectors * VECTOR + first_element();
    for (unsigned pass = 0; pass < REPEATS; ++pass) {
        for (long long at = i; at < n; at += element_stride()) use(at);
    }
}

__device__ inline real larger(real a, real b) { return a > b ? a : b; }

// y = the largest element of x: exact in any order.
extern "C" __global__ void read(const real* x, real* y, long long n) {
    const long long vectors = whole_vectors(n, x);
    real largest[VECTOR];
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) largest[e] = LOWEST;
    each_tile(vectors, [&](long long first, bool whole) {
        Vector part[UNROLL];
        each_vector(first, whole, vectors, [&](int i, long long at) { part[i] = read_vector(x, at); });
        each_vector(first, whole, vectors, [&](int i, long long) {
#pragma unroll
            for (int e = 0; e < VECTOR; ++e) largest[e] = larger(largest[e], part[i].element[e]);
        });
    });
    each_rest(vectors, n, [&](long long at) { largest[0] = larger(largest[0], x[at]); });
    accum value = largest[0];
#pragma unroll
    for (int e = 1; e < VECTOR; ++e) value = larger(value, largest[e]);
    if (grid_reduce(value, LOWEST, larger)) y[0] = value;
}

// y = a
extern "C" __global__ void write(real* y, accum a, long long n) {
    const long long vectors = whole_vectors(n, y);
    Vector value;
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) value.element[e] = a;
    each_tile(vectors, [&](long long first, bool whole) {
        each_vector(first, whole, vectors, [&](int, long long at) { write_vector(y, at, value); });
    });
    each_rest(vectors, n, [&](long long at) { y[at] = a; });
}

// y = x
extern "C" __global__ void copy(const real* x, real* y, long long n) {
    const long long vectors = whole_vectors(n, x, y);
    each_tile(vectors, [&](long long first, bool whole) {
        Vector part[UNROLL];
        each_vector(first, whole, vectors, [&](int i, long long at) { part[i] = read_vector(x, at); });
        each_vector(first, whole, vectors, [&](int i, long long at) { write_vector(y, at, part[i]); });
    });
    each_rest(vectors, n, [&](long long at) { y[at] = x[at]; });
}

// z = x + a y
extern "C" __global__ void triad(const real* x, const real* y, real* z, accum a, long long n) {
    const long long vectors = whole_vectors(n, x, y, z);
    each_tile(vectors, [&](long long first, bool whole) {
        Vector x_part[UNROLL], y_part[UNROLL];
        each_vector(first, whole, vectors, [&](int i, long long at) {
            x_part[i] = read_vector(x, at);
            y_part[i] = read_vector(y, at);
        });
        each_vector(first, whole, vectors, [&](int i, long long at) {
            Vector result;
#pragma unroll
            for (int e = 0; e < VECTOR; ++e) {
                result.element[e] = multiply_add(a, y_part[i].element[e], x_part[i].element[e]);
            }
            write_vector(z, at, result);
        });
    });
    each_rest(vectors, n, [&](long long at) { z[at] = multiply_add(a, y[at], x[at]); });
}
