// 19  Quantizing
// Idea:    a block holds a 128×128 tile of X in registers, finds the largest element of those that
//          share a scale, and stores the elements divided by their scale in 8 bits. So X is read
//          once. A scale for more than one tile needs a pass before, which finds the largest.
// Before:  19_fp8.cu takes A and B with their scales. These kernels make them.
// Launch:  `convert` and `find_largest`: block (256), grid (ceil(cols / 128), ceil(rows / 128));
//          `convert_rows`: block (256), grid (rows).
// Takes:   X, rows × cols, bfloat16 or float32 as IN32 says. Gives Q in 8 bits, as DTYPE says, and
//          float32 scales, as KIND says. Q is X, or with TRANSPOSE its transpose, divided by the
//          scales and rounded to nearest; the largest element of a scale becomes the largest number
//          of the type.

#define PER_TENSOR 0                             // kinds of scales: one for Q
#define PER_ROW 1                                // one for each row of Q
#define PER_STRIP 2                              // one for each 1×128 of Q, as for A of 19
#define PER_BLOCK 3                              // one for each 128×128 of Q, as for B of 19

#ifndef KIND
#define KIND PER_STRIP
#endif
#ifndef TRANSPOSE
#define TRANSPOSE 0
#endif
#ifndef IN32
#define IN32 0                                   // 0: X is bfloat16, 1: float32
#endif
#ifndef DTYPE
#define DTYPE 0                                  // 0: E4M3, 1: E5M2
#endif

constexpr int TILE = 128;                        // rows and columns of X in a block
constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int SIDE = 8;                          // rows and columns of X in a thread
constexpr float LARGEST_NUMBER = DTYPE ? 57344.0f : 448.0f;    // of the 8-bit type
constexpr float FLOAT_MAX = 3.402823466e38f, SMALLEST_NORMAL = 1.175494351e-38f;

typedef unsigned char Byte;
#if IN32
typedef float In;
#else
typedef unsigned short In;
#endif

// ---- load ---------------------------------------------------------------------------------------

__device__ __forceinline__ float to_float(In x)
{
#if IN32
    return x;
#else
    return __uint_as_float((unsigned)x << 16);
#endif
}

// Eight neighbours in a row of X, which begin at a multiple of 16 bytes.
__device__ __forceinline__ void load_eight(In (&elements)[SIDE], const In* from)
{
    #pragma unroll
    for (int v = 0; v < (int)sizeof(elements) / 16; ++v)
        ((int4*)elements)[v] = ((const int4*)from)[v];
}

// The same, from column `col` on, where X may end; zeros for what is outside.
__device__ __forceinline__ void load_eight_ragged(In (&elements)[SIDE], const In* from,
                                                  bool row_in_bounds, int col, int cols)
{
    #pragma unroll
    for (int j = 0; j < SIDE; ++j)
        elements[j] = row_in_bounds && col + j < cols ? from[j] : In(0);
}

// A thread's 8×8 elements of the tile: 16 threads side by side, 16 below one another.
struct Elements {
    float values[SIDE][SIDE];

    // The first of the thread's rows and columns, within the tile.
    __device__ __forceinline__ static int row() { return threadIdx.x / 16 * SIDE; }
    __device__ __forceinline__ static int col() { return threadIdx.x % 16 * SIDE; }

    // The tile begins at (tile_row, tile_col) of X. Zeros outside of X.
    __device__ __forceinline__ void load(const In* X, int tile_row, int tile_col, int rows,
                                         int cols)
    {
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) {
            const int r = tile_row + row() + i, c = tile_col + col();
            const In* from = X + (size_t)r * cols + c;
            alignas(16) In elements[SIDE];
            if (r < rows && c + SIDE <= cols && cols % SIDE == 0) load_eight(elements, from);
            else load_eight_ragged(elements, from, r < rows, c, cols);
            #pragma unroll
            for (int j = 0; j < SIDE; ++j) values[i][j] = to_float(elements[j]);
        }
    }
};

// ---- the largest element ------------------------------------------------------------------------

// The largest absolute value in each of the thread's rows, along the whole tile.
__device__ __forceinline__ void largest_of_rows(float (&largest)[SIDE], const Elements& elements)
{
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        largest[i] = 0.0f;
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) largest[i] = fmaxf(largest[i], fabsf(elements.values[i][j]));
        #pragma unroll
        for (int lane = 1; lane < 16; lane *= 2)
            largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], lane));
    }
}

// The same in each of its columns.
__device__ __forceinline__ void largest_of_columns(float (&largest)[SIDE],
                                                   const Elements& elements)
{
    __shared__ float of_warps[WARPS][TILE];
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        largest[j] = 0.0f;
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) largest[j] = fmaxf(largest[j], fabsf(elements.values[i][j]));
        largest[j] = fmaxf(largest[j], __shfl_xor_sync(~0u, largest[j], 16));
        of_warps[threadIdx.x / 32][Elements::col() + j] = largest[j];
    }
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < SIDE; ++j)
        for (int warp = 0; warp < WARPS; ++warp)
            largest[j] = fmaxf(largest[j], of_warps[warp][Elements::col() + j]);
}

// The largest of one value of each thread of the block.
__device__ __forceinline__ float largest_of_block(float value)
{
    __shared__ float of_warps[WARPS];
    for (int lane = 1; lane < 32; lane *= 2)
        value = fmaxf(value, __shfl_xor_sync(~0u, value, lane));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    for (int warp = 0; warp < WARPS; ++warp) value = fmaxf(value, of_warps[warp]);
    return value;
}

__device__ __forceinline__ float largest_of_tile(const Elements& elements)
{
    float of_rows[SIDE], largest = 0.0f;
    largest_of_rows(of_rows, elements);
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) largest = fmaxf(largest, of_rows[i]);
    return largest_of_block(largest);
}

// ---- scale, convert, store ----------------------------------------------------------------------

// A scale, and its inverse: multiplying is cheaper than dividing. Where the largest element is
// below about 5e-36 (E4M3) or 7e-34 (E5M2), the scale would be subnormal, and is 1 instead.
struct Scale {
    float scale, inverse;

    __device__ __forceinline__ explicit Scale(float largest)
    {
        largest = fminf(largest, FLOAT_MAX);
        const float smallest = LARGEST_NUMBER * SMALLEST_NORMAL;
        scale = largest < smallest ? 1.0f : __fdiv_rn(largest, LARGEST_NUMBER);
        inverse = largest < smallest ? 1.0f : __fdiv_rn(LARGEST_NUMBER, largest);
    }
};

// Two values in 8 bits each, the first in the lower ones. What is too large becomes LARGEST_NUMBER.
__device__ __forceinline__ unsigned to_bytes(float first, float second)
{
    unsigned short bytes;
#if DTYPE
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bytes) : "f"(second), "f"(first));
#else
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bytes) : "f"(second), "f"(first));
#endif
    return bytes;
}

__device__ __forceinline__ uint2 to_bytes(const float (&values)[SIDE])
{
    return make_uint2(to_bytes(values[0], values[1]) | to_bytes(values[2], values[3]) << 16,
                      to_bytes(values[4], values[5]) | to_bytes(values[6], values[7]) << 16);
}

// Elements (row, col) to (row, col + 7) of Q, rows × cols; those outside are left out.
__device__ __forceinline__ void store_eight(Byte* Q, size_t row, int col, int rows, int cols,
                                            uint2 bytes)
{
    if (row >= rows) return;
    Byte* to = Q + row * cols + col;
    if (col + SIDE <= cols && cols % SIDE == 0) *(uint2*)to = bytes;
    else
        for (int j = 0; j < SIDE; ++j)
            if (col + j < cols) to[j] = (j < 4 ? bytes.x : bytes.y) >> j % 4 * 8;
}

// ---- kernels ------------------------------------------------------------------------------------

// The pass before `convert` where a scale covers more than a tile. `largest` is zeros before: one
// for all of X, or one for each of its columns. Floats from 0 on have the order of their bits.
extern "C" __global__ void __launch_bounds__(THREADS)
find_largest(const In* __restrict__ X, unsigned* largest, int rows, int cols)
{
    const int tile_row = blockIdx.y * TILE, tile_col = blockIdx.x * TILE;
    Elements elements;
    elements.load(X, tile_row, tile_col, rows, cols);
#if KIND == PER_TENSOR
    const float of_tile = largest_of_tile(elements);
    if (threadIdx.x == 0) atomicMax(largest, __float_as_uint(of_tile));
#else
    float of_columns[SIDE];
    largest_of_columns(of_columns, elements);
    const int col = tile_col + Elements::col();
    if (Elements::row() == 0)
        for (int j = 0; j < SIDE; ++j)
            if (col + j < cols) atomicMax(largest + col + j, __float_as_uint(of_columns[j]));
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
convert(const In* __restrict__ X, Byte* Q, float* scales, const float* __restrict__ largest,
        int rows, int cols)
{
    const int tile_row = blockIdx.y * TILE, tile_col = blockIdx.x * TILE;

    // The thread's 8×8 of Q: `row`, `col` is its first element, `strip` the number of its 1×128.
    const int q_rows = TRANSPOSE ? cols : rows, q_cols = TRANSPOSE ? rows : cols;
    const int row = TRANSPOSE ? tile_col + Elements::col() : tile_row + Elements::row();
    const int strips = (q_cols + TILE - 1) / TILE;
    const int strip = TRANSPOSE ? blockIdx.y : blockIdx.x;
    const bool stores_scales = (TRANSPOSE ? Elements::row() : Elements::col()) == 0;

    Elements elements;
    elements.load(X, tile_row, tile_col, rows, cols);
    float of_rows[SIDE];                         // the largest element for the scale of each row
#if KIND == PER_STRIP
    if (TRANSPOSE) largest_of_columns(of_rows, elements);
    else largest_of_rows(of_rows, elements);
#else
    const float of_all = KIND == PER_BLOCK ? largest_of_tile(elements)
                       : KIND == PER_TENSOR ? largest[0] : 0.0f;
    #pragma unroll
    for (int i = 0; i < SIDE; ++i)
        of_rows[i] = KIND != PER_ROW ? of_all : row + i < q_rows ? largest[row + i] : 0.0f;
#endif

    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        const Scale scale(of_rows[i]);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j)
            (TRANSPOSE ? elements.values[j][i] : elements.values[i][j]) *= scale.inverse;
        if (KIND == PER_STRIP && stores_scales && row + i < q_rows)
            scales[(size_t)(row + i) * strips + strip] = scale.scale;
        if (KIND == PER_ROW && stores_scales && strip == 0 && row + i < q_rows)
            scales[row + i] = scale.scale;
        if (i == 0 && threadIdx.x == 0) {
            if (KIND == PER_BLOCK) scales[(size_t)(row / TILE) * strips + strip] = scale.scale;
            if (KIND == PER_TENSOR && tile_row + tile_col == 0) scales[0] = scale.scale;
        }
    }

    uint2 bytes[SIDE];                           // the thread's 8 rows of Q, 8 elements of each
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        const auto pair = [&](int j) {
            return TRANSPOSE ? to_bytes(elements.values[j][i], elements.values[j + 1][i])
                             : to_bytes(elements.values[i][j], elements.values[i][j + 1]);
        };
        bytes[i] = make_uint2(pair(0) | pair(2) << 16, pair(4) | pair(6) << 16);
    }
#if TRANSPOSE
    // Through shared memory, so that a warp stores along rows of Q: TILE rows of 16 times 8 bytes.
    // Where each of the 16 stands in its row differs between threads that store together, so that
    // no two of them use one bank.
    __shared__ uint2 turned[TILE][16];
    #pragma unroll
    for (int i = 0; i < SIDE; ++i)
        turned[Elements::col() + i][threadIdx.x / 16 ^ threadIdx.x % 16] = bytes[i];
    __syncthreads();
    for (int i = threadIdx.x / 16; i < TILE; i += THREADS / 16)
        store_eight(Q, tile_col + i, tile_row + Elements::col(), q_rows, q_cols,
                    turned[i][threadIdx.x % 16 ^ i / SIDE]);
#else
    for (int i = 0; i < SIDE; ++i)
        store_eight(Q, row + i, tile_col + Elements::col(), q_rows, q_cols, bytes[i]);
#endif
}

// A scale for each row of X, found and used by one block. It reads its row twice; the second time
// the row is in L2, if not in L1.
extern "C" __global__ void __launch_bounds__(THREADS)
convert_rows(const In* __restrict__ X, Byte* Q, float* scales, int rows, int cols)
{
    const size_t row = blockIdx.x;
    const auto load = [&](float (&values)[SIDE], int col) {
        const In* from = X + row * cols + col;
        alignas(16) In elements[SIDE];
        if (cols % SIDE == 0) load_eight(elements, from);
        else load_eight_ragged(elements, from, true, col, cols);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) values[j] = to_float(elements[j]);
    };
    float values[SIDE], largest = 0.0f;
    #pragma unroll 4
    for (int col = threadIdx.x * SIDE; col < cols; col += THREADS * SIDE) {
        load(values, col);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) largest = fmaxf(largest, fabsf(values[j]));
    }
    const Scale scale(largest_of_block(largest));
    if (threadIdx.x == 0) scales[row] = scale.scale;
    for (int col = threadIdx.x * SIDE; col < cols; col += THREADS * SIDE) {
        load(values, col);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) values[j] *= scale.inverse;
        store_eight(Q, row, col, rows, cols, to_bytes(values));
    }
}
