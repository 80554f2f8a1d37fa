// From tiles of A and B in shared memory to the words that a lane of a warp gives to mma.sync, and
// from its sums to elements of C. A warp has DOWN × ACROSS pieces of 16×8.
#pragma once

#include "mma_instruction.cuh"

#ifndef SWIZZLE
#define SWIZZLE 1                                // 0: rows lie in shared memory as they are
#endif

// ---- where a chunk lies --------------------------------------------------------------------------

// The eight chunks that are read at once, one from each of eight rows, shall lie in different
// banks: of each row, chunks trade places by XOR with a number of the row. Where a row is shorter
// than the 128 bytes of all banks, several rows fill them once and have the same number.
constexpr int A_CHUNKS = BK / CHUNK, B_CHUNKS = BN / CHUNK;      // of a row of a tile
constexpr int A_ROWS_AT_ONCE = A_CHUNKS < 8 ? 8 / A_CHUNKS : 1;

__device__ __forceinline__ int number_in_a(int row)
{
    return SWIZZLE ? row / A_ROWS_AT_ONCE % (A_CHUNKS < 8 ? A_CHUNKS : 8) : 0;
}

// Of B, FP16 is read from eight rows that follow each other, INT8 from pairs of rows, four apart,
// and TF32 two chunks at a time from each of four rows.
__device__ __forceinline__ int number_in_b(int k)
{
    return !SWIZZLE ? 0 : SIZE == 2 ? k % 8 : SIZE == 1 ? k % 2 + k / 4 % 4 * 2 : k % 4 * 2;
}

__device__ __forceinline__ int place_in_a(int row, int chunk)
{
    return row * A_CHUNKS + (chunk ^ number_in_a(row));
}

__device__ __forceinline__ int place_in_b(int k, int chunk)
{
    return k * B_CHUNKS + (chunk ^ number_in_b(k));
}

// ---- operands from shared memory -----------------------------------------------------------------

// Four matrices of 8 rows of 16 bytes: lane l names row l % 8 of matrix l / 8, and receives word
// l % 4 of row l / 4 of each.
__device__ __forceinline__ void load_matrices(unsigned (&words)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from) : "memory");
}

// The same, each transposed as 8×8 elements of 16 bits.
__device__ __forceinline__ void load_transposed(unsigned (&words)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from) : "memory");
}

__device__ __forceinline__ unsigned load_word(unsigned from)
{
    unsigned word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
    return word;
}

// Of a warp whose part of A's tile begins at row y: the place of the chunk that the lane names, for
// the first 16 rows and the first instruction along K. Further on along K it is this, XOR 2 * step.
__device__ __forceinline__ int my_place_in_a(int y, int lane)
{
    return place_in_a(y + lane % 16, lane / 16);
}

// Of a warp whose part of B's tile begins at column x: the place for its first columns, of the
// chunk that the lane names, or of TF32 in words, of the one that it reads. The next 16 columns are
// XOR 2 away for 16 bits, and XOR 1 for 8; of TF32 the next 8 are XOR 8 words away.
__device__ __forceinline__ int my_place_in_b(int x, int lane)
{
    const int row = lane % 8, matrix = lane / 8;
    if (SIZE == 2) return place_in_b(lane % 16, x / CHUNK + lane / 16);
    if (SIZE == 1)
        return place_in_b(row / 2 * 4 + row % 2 + matrix % 2 * 2 + matrix / 2 * 16, x / CHUNK);
    return 4 * place_in_b(lane % 4, x / CHUNK + lane / 16) + lane / 4 % 4;
}

__device__ __forceinline__ void load_a(unsigned (&a)[DOWN][4], unsigned tile, int place, int step)
{
    #pragma unroll
    for (int i = 0; i < DOWN; ++i)
        load_matrices(a[i], tile + 16 * ((place ^ 2 * step) + 16 * i * A_CHUNKS));
}

// FP16, BF16: rows are along N and the instruction wants two k in a word, so the matrices are
// transposed on the way. INT8, FP8: it wants four k in a word. Transposed by 16 bits come two k of
// two columns; the even columns become one piece, the odd ones another. TF32: one word is one k,
// and a lane reads each by itself.
__device__ __forceinline__ void load_b(unsigned (&b)[ACROSS][2], unsigned tile, int place, int step)
{
    unsigned words[4];
    tile += 16 * step * DEPTH * B_CHUNKS;
    #pragma unroll
    for (int j = 0; j < ACROSS; j += 2) {
        if (SIZE == 2) {
            load_transposed(words, tile + 16 * (place ^ j));
            b[j][0] = words[0];
            b[j][1] = words[1];
            b[j + 1][0] = words[2];
            b[j + 1][1] = words[3];
        } else if (SIZE == 1) {
            load_transposed(words, tile + 16 * (place ^ j / 2));
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                b[j][half] = __byte_perm(words[2 * half], words[2 * half + 1], 0x6420);
                b[j + 1][half] = __byte_perm(words[2 * half], words[2 * half + 1], 0x7531);
            }
        } else {
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                b[j][half] = load_word(tile + 4 * (place ^ 8 * j) + 64 * half * B_CHUNKS);
                b[j + 1][half] = load_word(tile + 4 * (place ^ 8 * (j + 1)) + 64 * half * B_CHUNKS);
            }
        }
    }
}

// ---- which sums are whose ------------------------------------------------------------------------

// Of the 16 columns of C from 16 * pair on, a lane ends up with four neighbours of a row: their
// first column. Two lanes trade halves for it, but for 8 bits, where even and odd columns are two
// pieces.
__device__ __forceinline__ int my_column(int pair, int lane)
{
    const int t = lane % 4;
    return 16 * pair + (SIZE == 1 ? 4 * t : t % 2 * 8 + t / 2 * 4);
}

// The four sums. `lower`: of the rows 8 to 15 of the pieces. By all lanes of the warp.
__device__ __forceinline__ void four_neighbours(Sum (&four)[4], const Sum (&sums)[ACROSS][4],
                                                int pair, int lower, int lane)
{
    const int j = 2 * pair, at = 2 * lower;
    const bool odd = lane % 2;
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        const Sum left = sums[j][at + v], right = sums[j + 1][at + v];
        if (SIZE == 1) {
            four[2 * v] = left;
            four[2 * v + 1] = right;
        } else {
            const Sum theirs = __shfl_xor_sync(0xffffffff, odd ? left : right, 1);
            four[v] = odd ? theirs : left;
            four[2 + v] = odd ? right : theirs;
        }
    }
}
