// y = transpose of x, x of rows x columns, in three ways. Tiles of EDGE x EDGE; a block of 32 x 8 threads takes one
// tile after another, so any grid covers the matrix.
#include "common.cuh"

#ifdef TILE
constexpr int EDGE = TILE;
#else
constexpr int EDGE = sizeof(real) == 2 ? 64 : 32;  // so that a line of a tile is at least 128 bytes
#endif
constexpr int WIDTH = 32, LINES = 8;                           // the block's shape
constexpr int WORD = sizeof(real) < 4 ? 4 / sizeof(real) : 1;  // elements in a word of a bank, at least one
static_assert(EDGE % WIDTH == 0, "a tile must be a multiple of 32 wide");

struct Corner {
    long long row, column;
};

// Tiles are counted in 32 bits: a division of 64 takes a hundred instructions, and 2^32 tiles are more than memory
// holds.
__device__ inline unsigned tiles_along(long long elements) { return (elements + EDGE - 1) / EDGE; }

__device__ inline Corner corner_of(unsigned tile, unsigned tiles_per_row) {
    return {static_cast<long long>(tile / tiles_per_row) * EDGE, static_cast<long long>(tile % tiles_per_row) * EDGE};
}

// Calls use(i, j) for the elements of a tile that fall to this thread.
template <typename Use>
__device__ inline void each_in_tile(Use use) {
#pragma unroll
    for (int i = 0; i < EDGE / LINES; ++i) {
#pragma unroll
        for (int j = 0; j < EDGE / WIDTH; ++j) use(threadIdx.y + i * LINES, threadIdx.x + j * WIDTH);
    }
}

// Rows are read as they lie, and written a whole column apart.
extern "C" __global__ void transpose_naive(const real* __restrict__ x, real* __restrict__ y, long long rows,
                                           long long columns) {
    const unsigned across = tiles_along(columns), tiles = tiles_along(rows) * across;
    for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Corner at = corner_of(tile, across);
        each_in_tile([&](int i, int j) {
            const long long row = at.row + i, column = at.column + j;
            if (row < rows && column < columns) y[column * rows + row] = x[row * columns + column];
        });
    }
}

// Reads and writes rows as they lie, turned over in shared memory. With a PITCH of a multiple of 32 words every thread
// of a warp reads the turned tile from the same bank; one word more spreads them over all banks.
template <int PITCH>
__device__ void transpose_through_tile(const real* __restrict__ x, real* __restrict__ y, long long rows,
                                       long long columns) {
    __shared__ real turned[EDGE][PITCH];
    const unsigned across = tiles_along(columns), tiles = tiles_along(rows) * across;
    for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Corner at = corner_of(tile, across);
        each_in_tile([&](int i, int j) {
            const long long row = at.row + i, column = at.column + j;
            if (row < rows && column < columns) turned[i][j] = x[row * columns + column];
        });
        __syncthreads();
        each_in_tile([&](int i, int j) {
            const long long row = at.row + j, column = at.column + i;
            if (row < rows && column < columns) y[column * rows + row] = turned[j][i];
        });
        __syncthreads();
    }
}

extern "C" __global__ void transpose_tiled(const real* __restrict__ x, real* __restrict__ y, long long rows,
                                           long long columns) {
    transpose_through_tile<EDGE>(x, y, rows, columns);
}

extern "C" __global__ void transpose_padded(const real* __restrict__ x, real* __restrict__ y, long long rows,
                                            long long columns) {
    transpose_through_tile<EDGE + WORD>(x, y, rows, columns);
}
