// FP16: from swizzled tiles in shared memory to fragments, and from accumulators to C.
#pragma once

#include "ldmatrix.cuh"
#include "mma_instruction.cuh"

constexpr int A_CHUNKS = BK / CHUNK, B_CHUNKS = BN / CHUNK;      // of a row of a tile

// ldmatrix reads a chunk from each of eight rows at once. Rows are multiples of 128 bytes, all 32
// banks, so these chunks would lie in the same four banks. With the swizzle, an XOR with the number
// of the row, they lie in eight different groups of banks.
__device__ __forceinline__ int index_in_a(int row, int chunk)
{
    return row * A_CHUNKS + (chunk ^ row % 8);
}

__device__ __forceinline__ int index_in_b(int k, int chunk)
{
    return k * B_CHUNKS + (chunk ^ k % 8);
}

// A warp's part of C, WM × WN, in mma tiles: what one mma computes.
constexpr int TILES_M = WM / MMA_M, TILES_N = WN / MMA_N;
static_assert(WM % MMA_M == 0 && WN % (2 * MMA_N) == 0,
              "whole mma tiles, those of B in pairs: ldmatrix loads two at a time");

// What a warp multiplies at a time: MMA_K along K.
struct Fragments {
    unsigned a[TILES_M][4], b[TILES_N][2];
};

// The chunk whose address a lane gives to ldmatrix, for a warp's first fragments of A and of B.
// Lanes 0 to 15 have rows 0 to 15 of the left chunk, lanes 16 to 31 those of the right one. So the
// four matrices are the upper and lower left, then the upper and lower right: of A, a[0] to a[3] of
// an mma; of B, which has a row for each k, b[0] and b[1] of one mma and of the next to its right.
__device__ __forceinline__ int lane_index_a(int warp_m, int lane)
{
    return index_in_a(warp_m + lane % 16, lane / 16);
}

__device__ __forceinline__ int lane_index_b(int warp_n, int lane)
{
    return index_in_b(lane % 16, warp_n / CHUNK + lane / 16);
}

// The fragments of a k_step of the stage at this shared address; B lies after A. A k_step is two
// chunks of a row of A, and an mma tile one chunk of a row of B. A lane begins at chunk 0 or 1 of
// A, and at 0 or 1 after a multiple of TILES_N of B. So a step of 2 * k_step or j chunks carries no
// bit and can be an XOR, as the swizzle is: (chunk + step) ^ row % 8 == (chunk ^ row % 8) ^ step.
// Rows 16 apart are swizzled alike.
static_assert((A_CHUNKS & (A_CHUNKS - 1)) == 0 && (B_CHUNKS & (B_CHUNKS - 1)) == 0 &&
              (TILES_N & (TILES_N - 1)) == 0, "powers of two: steps along a row are XORed");
__device__ __forceinline__ void load_fragments(Fragments& fragments, unsigned stage, int index_a,
                                               int index_b, int k_step)
{
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i)
        ldmatrix(fragments.a[i], stage + 16 * ((index_a ^ 2 * k_step) + MMA_M * i * A_CHUNKS));
    const unsigned b_rows = stage + 16 * (BM * A_CHUNKS + k_step * MMA_K * B_CHUNKS);
    #pragma unroll
    for (int j = 0; j < TILES_N; j += 2)
        ldmatrix_trans(fragments.b[j], fragments.b[j + 1], b_rows + 16 * (index_b ^ j));
}

typedef Accumulator Accumulators[TILES_M][TILES_N][4];
typedef unsigned short Result;                   // an element of C: the bits of a number
struct __align__(8) Result4 { Result c[4]; };
constexpr bool INTEGER = false;                  // true of INT8 alone

// c = alpha * sum + beta * c + bias, rounded once. Where beta is 0, c is not read.
__device__ __forceinline__ void combine(Result& c, float sum, float alpha, float beta, float bias)
{
    float old, x = alpha * sum;
    if (beta != 0.0f) {
        asm("cvt.f32.f16 %0, %1;" : "=f"(old) : "h"(c));
        x += beta * old;
    }
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(c) : "f"(x + bias));
}

// Lane 4g + t has columns 2t and 2t + 1 of each mma tile, and the four lanes of a row 16 bytes of
// it: half a sector. So lanes t and t ^ 1 trade two sums of two tiles side by side: the even one
// then has four columns of the left tile, the odd one of the right, and a row of a tile is stored
// as a whole sector. They begin at this column.
__device__ __forceinline__ int column_of_four(int pair, int lane)
{
    const int t = lane % 4;
    return 16 * pair + (t % 2 * 8 + t / 2 * 4);
}

// This lane's four sums of a pair of mma tiles, of a row of them. lower: 1 for rows 8 to 15 of the
// tiles, 0 for 0 to 7. By all lanes of the warp.
__device__ __forceinline__ void four_neighbours(float (&four)[4], const float (&tiles)[TILES_N][4],
                                                int pair, int lower, int lane)
{
    const bool odd = lane % 2;
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        const float from_left = tiles[2 * pair][2 * lower + v];
        const float from_right = tiles[2 * pair + 1][2 * lower + v];
        const float received = __shfl_xor_sync(0xffffffff, odd ? from_left : from_right, 1);
        four[v] = odd ? received : from_left;
        four[2 + v] = odd ? from_right : received;
    }
}

// Store a warp's part of C from (row, col) on, where beta is 0 and N a multiple of 4.
__device__ __forceinline__ void store_fours(Result* C, const Accumulators& accumulators, int row,
                                            int col, int M, int N, float alpha,
                                            const float* /* bias */)
{
    const int lane = threadIdx.x % 32;
    row += lane / 4;
    #pragma unroll
    for (int pair = 0; pair < TILES_N / 2; ++pair) {
        const int c = col + column_of_four(pair, lane);
        #pragma unroll
        for (int i = 0; i < 2 * TILES_M; ++i) {  // 8 rows at a time: half a row of mma tiles
            float four[4];
            Result4 result;
            four_neighbours(four, accumulators[i / 2], pair, i % 2, lane);
            #pragma unroll
            for (int v = 0; v < 4; ++v)
                combine(result.c[v], four[v], alpha, 0.0f, 0.0f);
            if (c < N && row + 8 * i < M)        // all four columns, or none of them
                *(Result4*)(C + (size_t)(row + 8 * i) * N + c) = result;
        }
    }
}
