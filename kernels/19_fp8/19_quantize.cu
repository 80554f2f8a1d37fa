// 19  Quantizing
// Idea:    a block holds 128×128 elements in registers, finds the largest of those that share a
//          scale, and writes their quotients in 8 bits: each element is read once. Where more than a
//          block shares a scale, what is largest is found before, by a pass of its own.
// Launch:  `convert` and `find_largest`: block (256), grid (ceil(cols / 128), ceil(rows / 128));
//          `convert_rows`: block (256), grid (rows).
// Takes:   X, rows × cols, bfloat16 or float32 as IN32 says. Gives Q of 8 bits, as DTYPE says, as X
//          lies, or with TRANSPOSE cols × rows, and float32 scales: by KIND one for all (0), for each
//          row of Q (1), for each 1×128 of Q (2), for each 128×128 of Q (3). Q times its scale is X,
//          rounded to the nearest; the largest element becomes the largest number there is.

#ifndef KIND
#define KIND 2
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

#define TILE 128
#define THREADS 256
#define EACH 8                                   // rows of a thread, and columns
#define LARGEST_NUMBER (DTYPE ? 57344.0f : 448.0f)
#define FLOAT_MAX 3.402823466e38f
#define SMALLEST_NORMAL 1.175494351e-38f

typedef unsigned char Byte;
#if IN32
typedef float In;
#else
typedef unsigned short In;
#endif

__device__ __forceinline__ float as_float(In x)
{
#if IN32
    return x;
#else
    return __uint_as_float((unsigned)x << 16);
#endif
}

// A thread's 8×8 elements: 16 threads lie side by side, 16 below one another.
struct Mine {
    float values[EACH][EACH];

    __device__ __forceinline__ static int row() { return threadIdx.x / 16 * EACH; }
    __device__ __forceinline__ static int col() { return threadIdx.x % 16 * EACH; }

    // Zeros where X ends.
    __device__ __forceinline__ void load(const In* X, int top, int left, int rows, int cols)
    {
        #pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const int r = top + row() + i, c = left + col();
            const In* from = X + (size_t)r * cols + c;
            alignas(16) In one[EACH];
            if (r < rows && c + EACH <= cols && cols % EACH == 0) {
                #pragma unroll
                for (int part = 0; part < (int)sizeof(one) / 16; ++part)
                    ((int4*)one)[part] = ((const int4*)from)[part];
            } else {
                #pragma unroll
                for (int j = 0; j < EACH; ++j) one[j] = r < rows && c + j < cols ? from[j] : In(0);
            }
            #pragma unroll
            for (int j = 0; j < EACH; ++j) values[i][j] = as_float(one[j]);
        }
    }
};

// What is largest in each row of the tile, or each column.
__device__ __forceinline__ void largest_of_rows(const Mine& mine, float (&found)[EACH])
{
    #pragma unroll
    for (int i = 0; i < EACH; ++i) {
        found[i] = 0.0f;
        #pragma unroll
        for (int j = 0; j < EACH; ++j) found[i] = fmaxf(found[i], fabsf(mine.values[i][j]));
        #pragma unroll
        for (int lane = 1; lane < 16; lane *= 2)
            found[i] = fmaxf(found[i], __shfl_xor_sync(~0u, found[i], lane));
    }
}

__device__ __forceinline__ void largest_of_columns(const Mine& mine, float (&found)[EACH])
{
    __shared__ float of_warps[THREADS / 32][TILE];
    #pragma unroll
    for (int j = 0; j < EACH; ++j) {
        found[j] = 0.0f;
        #pragma unroll
        for (int i = 0; i < EACH; ++i) found[j] = fmaxf(found[j], fabsf(mine.values[i][j]));
        found[j] = fmaxf(found[j], __shfl_xor_sync(~0u, found[j], 16));
        of_warps[threadIdx.x / 32][Mine::col() + j] = found[j];
    }
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < EACH; ++j)
        for (int warp = 0; warp < THREADS / 32; ++warp)
            found[j] = fmaxf(found[j], of_warps[warp][Mine::col() + j]);
}

// The largest of what all threads of the block have.
__device__ __forceinline__ float largest_of_block(float mine)
{
    __shared__ float of_warps[THREADS / 32];
    for (int lane = 1; lane < 32; lane *= 2)
        mine = fmaxf(mine, __shfl_xor_sync(~0u, mine, lane));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
    __syncthreads();
    for (int warp = 0; warp < THREADS / 32; ++warp) mine = fmaxf(mine, of_warps[warp]);
    return mine;
}

__device__ __forceinline__ float largest_of_tile(const Mine& mine)
{
    float found[EACH], all = 0.0f;
    largest_of_rows(mine, found);
    #pragma unroll
    for (int i = 0; i < EACH; ++i) all = fmaxf(all, found[i]);
    return largest_of_block(all);
}

// A scale, and what to multiply with in place of dividing by it. Where nothing is larger than some
// 5e-36 or 7e-34, the scale is 1: a smaller one would be subnormal.
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

// Two numbers in 8 bits each, the first one below. What is too large becomes the largest number.
__device__ __forceinline__ unsigned in_eight_bits(float first, float second)
{
    unsigned short both;
#if DTYPE
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(second), "f"(first));
#else
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(second), "f"(first));
#endif
    return both;
}

// Eight neighbours of a row of Q, as many of them as there are.
__device__ __forceinline__ void store(Byte* Q, size_t row, int col, int rows, int cols, uint2 eight)
{
    if (row >= rows) return;
    Byte* to = Q + row * cols + col;
    if (col + EACH <= cols && cols % EACH == 0) *(uint2*)to = eight;
    else
        for (int j = 0; j < EACH; ++j)
            if (col + j < cols) to[j] = (j < 4 ? eight.x : eight.y) >> j % 4 * 8;
}

extern "C" __global__ void __launch_bounds__(THREADS)
find_largest(const In* __restrict__ X, unsigned* largest, int rows, int cols)
{
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    Mine mine;
    mine.load(X, top, left, rows, cols);
#if KIND == 0
    const float found = largest_of_tile(mine);   // floats from 0 on are in order as integers, too
    if (threadIdx.x == 0) atomicMax(largest, __float_as_uint(found));
#else
    float found[EACH];
    largest_of_columns(mine, found);
    if (Mine::row() == 0)
        for (int j = 0; j < EACH; ++j)
            if (left + Mine::col() + j < cols)
                atomicMax(largest + left + Mine::col() + j, __float_as_uint(found[j]));
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
convert(const In* __restrict__ X, Byte* Q, float* scales, const float* __restrict__ largest,
        int rows, int cols)
{
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    const int lines = TRANSPOSE ? cols : rows, depth = TRANSPOSE ? rows : cols;    // of Q
    const int pieces = (depth + TILE - 1) / TILE;              // along a row of Q
    const int line = TRANSPOSE ? left + Mine::col() : top + Mine::row();           // my first
    const int piece = TRANSPOSE ? blockIdx.y : blockIdx.x;
    const bool first = (TRANSPOSE ? Mine::row() : Mine::col()) == 0;               // of my lines
    Mine mine;
    mine.load(X, top, left, rows, cols);

    float found[EACH];                           // of my lines, what is largest
#if KIND == 2
    if (TRANSPOSE) largest_of_columns(mine, found);
    else largest_of_rows(mine, found);
#else
    const float of_all = KIND == 3 ? largest_of_tile(mine) : KIND == 0 ? largest[0] : 0.0f;
    #pragma unroll
    for (int i = 0; i < EACH; ++i)
        found[i] = KIND == 1 ? line + i < lines ? largest[line + i] : 0.0f : of_all;
#endif

    #pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const Scale scale(found[i]);
        #pragma unroll
        for (int j = 0; j < EACH; ++j)
            (TRANSPOSE ? mine.values[j][i] : mine.values[i][j]) *= scale.inverse;
        if (KIND == 2 && first && line + i < lines)
            scales[(size_t)(line + i) * pieces + piece] = scale.scale;
        if (KIND == 1 && first && piece == 0 && line + i < lines) scales[line + i] = scale.scale;
        if (i == 0 && threadIdx.x == 0) {
            if (KIND == 3) scales[(size_t)(line / TILE) * pieces + piece] = scale.scale;
            if (KIND == 0 && top + left == 0) scales[0] = scale.scale;
        }
    }

    uint2 eight[EACH];                           // of my lines
    #pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const auto pair = [&](int j) {
            return TRANSPOSE ? in_eight_bits(mine.values[j][i], mine.values[j + 1][i])
                             : in_eight_bits(mine.values[i][j], mine.values[i][j + 1]);
        };
        eight[i] = make_uint2(pair(0) | pair(2) << 16, pair(4) | pair(6) << 16);
    }
#if TRANSPOSE
    // Lines of 16 times 8 bytes. Which of the 16 is where differs from thread to thread, so that no
    // two meet in a bank.
    __shared__ uint2 turned[TILE][16];
    #pragma unroll
    for (int i = 0; i < EACH; ++i)
        turned[Mine::col() + i][threadIdx.x / 16 ^ threadIdx.x % 16] = eight[i];
    __syncthreads();
    for (int i = threadIdx.x / 16; i < TILE; i += THREADS / 16)
        store(Q, left + i, top + Mine::col(), lines, depth, turned[i][threadIdx.x % 16 ^ i / EACH]);
#else
    for (int i = 0; i < EACH; ++i) store(Q, line + i, left + Mine::col(), lines, depth, eight[i]);
#endif
}

// A scale for each row of X: found and used by one block. What it reads again is in L2, if not L1.
extern "C" __global__ void __launch_bounds__(THREADS)
convert_rows(const In* __restrict__ X, Byte* Q, float* scales, int rows, int cols)
{
    const size_t row = blockIdx.x;
    const auto load = [&](int col, float (&eight)[EACH]) {
        const In* from = X + row * cols + col;
        alignas(16) In one[EACH];
        if (cols % EACH == 0) {
            #pragma unroll
            for (int part = 0; part < (int)sizeof(one) / 16; ++part)
                ((int4*)one)[part] = ((const int4*)from)[part];
        } else {
            #pragma unroll
            for (int j = 0; j < EACH; ++j) one[j] = col + j < cols ? from[j] : In(0);
        }
        #pragma unroll
        for (int j = 0; j < EACH; ++j) eight[j] = as_float(one[j]);
    };
    float found = 0.0f, eight[EACH];
    #pragma unroll 4
    for (int col = threadIdx.x * EACH; col < cols; col += THREADS * EACH) {
        load(col, eight);
        #pragma unroll
        for (int j = 0; j < EACH; ++j) found = fmaxf(found, fabsf(eight[j]));
    }
    const Scale scale(largest_of_block(found));
    if (threadIdx.x == 0) scales[row] = scale.scale;
    for (int col = threadIdx.x * EACH; col < cols; col += THREADS * EACH) {
        load(col, eight);
        const auto pair = [&](int j) {
            return in_eight_bits(eight[j] * scale.inverse, eight[j + 1] * scale.inverse);
        };
        store(Q, row, col, rows, cols, make_uint2(pair(0) | pair(2) << 16, pair(4) | pair(6) << 16));
    }
}
