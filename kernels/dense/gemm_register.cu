// C = A B, register-blocked: a block computes TILE x TILE of C, a thread 8 x 8 of it from registers. Tiles of A and B
// pass through shared memory TILE_K deep, double buffered, so that the next tile is on its way while this one is used.
// A block has (TILE / 8)^2 threads.
#include "common.cuh"

constexpr int PER_THREAD = 8;  // rows and columns of C per thread, as two groups of four half a tile apart
constexpr int QUAD = 4;        // elements moved at once
constexpr int THREADS = (TILE / PER_THREAD) * (TILE / PER_THREAD);
constexpr int QUADS = TILE * TILE_K / QUAD / THREADS;  // of each operand's tile, loaded by one thread
constexpr int PITCH = TILE + QUAD;                     // columns of A's tile are stored without bank conflicts
static_assert(TILE % 32 == 0 && TILE_K % QUAD == 0 && QUADS * QUAD * THREADS == TILE * TILE_K, "tile sizes do not fit");

template <typename T>
struct alignas(sizeof(T) * QUAD < 16 ? sizeof(T) * QUAD : 16) Quad {
    T element[QUAD];
};

// Four elements of row `row` from `column` on; zero outside. Whole when rows are multiples of four elements long.
__device__ inline Quad<accum> load_quad(const real* __restrict__ matrix, long long row, long long column,
                                        long long rows, long long columns, bool whole) {
    Quad<accum> quad;
    if (row < rows && whole && column < columns) {
        const Quad<real> loaded = *reinterpret_cast<const Quad<real>*>(matrix + row * columns + column);
#pragma unroll
        for (int i = 0; i < QUAD; ++i) quad.element[i] = to_accum(loaded.element[i]);
    } else {
#pragma unroll
        for (int i = 0; i < QUAD; ++i) {
            const bool inside = row < rows && column + i < columns;
            quad.element[i] = inside ? to_accum(matrix[row * columns + column + i]) : accum(0);
        }
    }
    return quad;
}

struct Tiles {
    accum a[TILE_K][PITCH];  // transposed, so that a thread's rows lie side by side
    accum b[TILE_K][TILE];
};

struct Loaded {
    Quad<accum> a[QUADS], b[QUADS];
};

__device__ inline void load_tiles(Loaded& loaded, const real* a, const real* b, long long row, long long column,
                                  long long start, long long m, long long n, long long k) {
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
        const int quad = threadIdx.x + i * THREADS;
        const int a_row = quad / (TILE_K / QUAD), a_column = quad % (TILE_K / QUAD) * QUAD;
        const int b_row = quad / (TILE / QUAD), b_column = quad % (TILE / QUAD) * QUAD;
        loaded.a[i] = load_quad(a, row + a_row, start + a_column, m, k, k % QUAD == 0);
        loaded.b[i] = load_quad(b, start + b_row, column + b_column, k, n, n % QUAD == 0);
    }
}

__device__ inline void keep_tiles(Tiles& tiles, const Loaded& loaded) {
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
        const int quad = threadIdx.x + i * THREADS;
        const int a_row = quad / (TILE_K / QUAD), a_column = quad % (TILE_K / QUAD) * QUAD;
        const int b_row = quad / (TILE / QUAD), b_column = quad % (TILE / QUAD) * QUAD;
#pragma unroll
        for (int e = 0; e < QUAD; ++e) tiles.a[a_column + e][a_row] = loaded.a[i].element[e];
        *reinterpret_cast<Quad<accum>*>(&tiles.b[b_row][b_column]) = loaded.b[i];
    }
}

// The eight values of a row of a tile that a thread uses: four at `at`, four half a tile on.
__device__ inline void take_eight(accum (&taken)[PER_THREAD], const accum* row, int at) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const Quad<accum> quad = *reinterpret_cast<const Quad<accum>*>(row + half * (TILE / 2) + at);
#pragma unroll
        for (int i = 0; i < QUAD; ++i) taken[half * QUAD + i] = quad.element[i];
    }
}

__device__ inline void multiply(accum (&sums)[PER_THREAD][PER_THREAD], const Tiles& tiles, int a_at, int b_at) {
#pragma unroll
    for (int i = 0; i < TILE_K; ++i) {
        accum a_part[PER_THREAD], b_part[PER_THREAD];
        take_eight(a_part, tiles.a[i], a_at);
        take_eight(b_part, tiles.b[i], b_at);
#pragma unroll
        for (int r = 0; r < PER_THREAD; ++r) {
#pragma unroll
            for (int s = 0; s < PER_THREAD; ++s) sums[r][s] += a_part[r] * b_part[s];
        }
    }
}

__device__ inline void store_quad(real* __restrict__ c, const accum* sums, long long row, long long column, long long m,
                                  long long n) {
    if (row >= m) return;
    if (n % QUAD == 0 && column < n) {
        Quad<real> quad;
#pragma unroll
        for (int i = 0; i < QUAD; ++i) quad.element[i] = from_accum(sums[i]);
        *reinterpret_cast<Quad<real>*>(c + row * n + column) = quad;
    } else {
#pragma unroll
        for (int i = 0; i < QUAD; ++i) {
            if (column + i < n) c[row * n + column + i] = from_accum(sums[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_register(const real* __restrict__ a, const real* __restrict__ b, real* __restrict__ c, long long m,
                  long long n, long long k) {
    __shared__ Tiles tiles[2];
    const int a_at = threadIdx.x / (TILE / PER_THREAD) * QUAD, b_at = threadIdx.x % (TILE / PER_THREAD) * QUAD;
    const long long row = static_cast<long long>(blockIdx.y) * TILE, column = static_cast<long long>(blockIdx.x) * TILE;
    accum sums[PER_THREAD][PER_THREAD] = {};
    Loaded loaded;
    load_tiles(loaded, a, b, row, column, 0, m, n, k);
    keep_tiles(tiles[0], loaded);
    __syncthreads();
    int current = 0;
    for (long long start = 0; start < k; start += TILE_K) {
        const bool more = start + TILE_K < k;
        if (more) load_tiles(loaded, a, b, row, column, start + TILE_K, m, n, k);
        multiply(sums, tiles[current], a_at, b_at);
        if (more) keep_tiles(tiles[1 - current], loaded);
        __syncthreads();
        current = 1 - current;
    }
#pragma unroll
    for (int r = 0; r < PER_THREAD; ++r) {
        const long long at = row + r / QUAD * (TILE / 2) + a_at + r % QUAD;
        store_quad(c, &sums[r][0], at, column + b_at, m, n);
        store_quad(c, &sums[r][QUAD], at, column + TILE / 2 + b_at, m, n);
    }
}
