// As mma_fp16.cuh, for all types, for rows of any length, with a bias and an activation. C is of 16
// bits as A and B, or float32 (OUT32, and from TF32 and 8-bit floats), or int32 from INT8.
#pragma once

#include "ldmatrix.cuh"
#include "mma_instruction.cuh"

constexpr int SIZE = sizeof(Element);

// ---- swizzled tiles -----------------------------------------------------------------------------

constexpr int A_CHUNKS = BK / CHUNK, B_CHUNKS = BN / CHUNK;      // of a row of a tile

// Where a row is shorter than the 128 bytes of all banks, several rows fill them once and are
// swizzled alike.
constexpr int A_ROWS_AT_ONCE = A_CHUNKS < 8 ? 8 / A_CHUNKS : 1;

__device__ __forceinline__ int swizzle_a(int row)
{
    return SWIZZLE ? row / A_ROWS_AT_ONCE % (A_CHUNKS < 8 ? A_CHUNKS : 8) : 0;
}

// Of B, 16 bits are read from eight rows that follow each other, 8 bits from pairs of rows, four
// apart, and TF32 two chunks at a time from each of four rows.
__device__ __forceinline__ int swizzle_b(int k)
{
    return !SWIZZLE ? 0 : SIZE == 2 ? k % 8 : SIZE == 1 ? k % 2 + k / 4 % 4 * 2 : k % 4 * 2;
}

__device__ __forceinline__ int index_in_a(int row, int chunk)
{
    return row * A_CHUNKS + (chunk ^ swizzle_a(row));
}

__device__ __forceinline__ int index_in_b(int k, int chunk)
{
    return k * B_CHUNKS + (chunk ^ swizzle_b(k));
}

// ---- fragments ----------------------------------------------------------------------------------

constexpr int TILES_M = WM / MMA_M, TILES_N = WN / MMA_N;

struct Fragments {
    unsigned a[TILES_M][4], b[TILES_N][2];
};

__device__ __forceinline__ int lane_index_a(int warp_m, int lane)
{
    return index_in_a(warp_m + lane % 16, lane / 16);
}

// The index of a chunk; of TF32, that of the word that the lane loads. The next 16 columns are
// XOR 2 away for 16 bits, and XOR 1 for 8; of TF32 the next 8 are XOR 8 words away.
__device__ __forceinline__ int lane_index_b(int warp_n, int lane)
{
    const int row = lane % 8, matrix = lane / 8;
    if (SIZE == 2) return index_in_b(lane % 16, warp_n / CHUNK + lane / 16);
    if (SIZE == 1)
        return index_in_b(row / 2 * 4 + row % 2 + matrix % 2 * 2 + matrix / 2 * 16, warp_n / CHUNK);
    return 4 * index_in_b(lane % 4, warp_n / CHUNK + lane / 16) + lane / 4 % 4;
}

__device__ __forceinline__ unsigned load_word(unsigned address)
{
    unsigned word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

// 16 bits: the instruction takes two k of a column in a word, so the matrices are transposed. 8
// bits: it takes four k in a word. A matrix transposed by 16 bits has two k of two columns in a
// word; the even columns become one mma tile, the odd ones another. TF32: one word is one k, and a
// lane loads each by itself.
__device__ __forceinline__ void load_fragments(Fragments& fragments, unsigned stage, int index_a,
                                               int index_b, int k_step)
{
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i)
        ldmatrix(fragments.a[i], stage + 16 * ((index_a ^ 2 * k_step) + MMA_M * i * A_CHUNKS));
    const unsigned b_rows = stage + 16 * (BM * A_CHUNKS + k_step * MMA_K * B_CHUNKS);
    unsigned words[2][2], (&b)[TILES_N][2] = fragments.b;
    #pragma unroll
    for (int j = 0; j < TILES_N; j += 2) {
        if (SIZE == 2) {
            ldmatrix_trans(b[j], b[j + 1], b_rows + 16 * (index_b ^ j));
        } else if (SIZE == 1) {
            ldmatrix_trans(words[0], words[1], b_rows + 16 * (index_b ^ j / 2));
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                b[j][half] = __byte_perm(words[half][0], words[half][1], 0x6420);
                b[j + 1][half] = __byte_perm(words[half][0], words[half][1], 0x7531);
            }
        } else {
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                b[j][half] = load_word(b_rows + 4 * (index_b ^ 8 * j) + 64 * half * B_CHUNKS);
                b[j + 1][half] =
                    load_word(b_rows + 4 * (index_b ^ 8 * (j + 1)) + 64 * half * B_CHUNKS);
            }
        }
    }
}

// ---- accumulators to C --------------------------------------------------------------------------

typedef Accumulator Accumulators[TILES_M][TILES_N][4];

#if DTYPE == 3
typedef int Result;
#elif DTYPE > 1 || OUT32
typedef float Result;
#else
typedef unsigned short Result;                   // the bits of a number
#endif

struct __align__(4 * sizeof(Result)) Result4 { Result c[4]; };
constexpr bool INTEGER = DTYPE == 3;

// erf within 1.5e-7, by formula 7.1.26 of M. Abramowitz, I. A. Stegun, "Handbook of Mathematical
// Functions" (1964).
__device__ __forceinline__ float short_erf(float x)
{
    const float t = __fdividef(1.0f, 1.0f + 0.3275911f * fabsf(x));
    const float sum = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t
                        - 0.284496736f) * t + 0.254829592f) * t;
    return copysignf(1.0f - sum * __expf(-x * x), x);
}

__device__ __forceinline__ float activation(float x)
{
#if ACTIVATION == 1
    return x < 0.0f ? 0.0f : x;                  // NaN stays NaN: fmaxf(x, 0) would make it 0
#elif ACTIVATION == 2
    return __fdividef(x, 1.0f + __expf(-1.59576912f * (x + 0.044715f * x * x * x)));
#elif ACTIVATION == 3
    return 0.5f * x * (1.0f + short_erf(0.707106781f * x));
#else
    return x;
#endif
}

__device__ __forceinline__ float number(float c) { return c; }
__device__ __forceinline__ float number(int c) { return c; }
__device__ __forceinline__ float number(unsigned short c)
{
    float x;
    if (DTYPE == 1) x = __uint_as_float((unsigned)c << 16);
    else asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(c));
    return x;
}

#if DTYPE == 3

// Sums of whole numbers stay exact. Factors are applied in double precision, and the result is
// rounded to the nearest number, the even one of two, within int32.
__device__ __forceinline__ void combine(Result& c, int sum, float alpha, float beta, float)
{
    if (alpha == 1.0f && beta == 0.0f) { c = sum; return; }
    double x = (double)alpha * sum;
    if (beta != 0.0f) x += (double)beta * c;
    c = __double2int_rn(x);
}

#else

__device__ __forceinline__ void round_to(float& c, float x) { c = x; }
__device__ __forceinline__ void round_to(unsigned short& c, float x)
{
    if (DTYPE == 1) asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(c) : "f"(x));
    else asm("cvt.rn.f16.f32 %0, %1;" : "=h"(c) : "f"(x));
}

// c = activation(alpha * sum + beta * c + bias), rounded once. Where beta is 0, c is not read.
__device__ __forceinline__ void combine(Result& c, float sum, float alpha, float beta, float bias)
{
    float x = alpha * sum;
    if (beta != 0.0f) x += beta * number(c);
    round_to(c, activation(x + bias));
}

#endif

// Of 8 bits no lanes trade: even and odd columns are two mma tiles.
__device__ __forceinline__ int column_of_four(int pair, int lane)
{
    const int t = lane % 4;
    return 16 * pair + (SIZE == 1 ? 4 * t : t % 2 * 8 + t / 2 * 4);
}

__device__ __forceinline__ void four_neighbours(Accumulator (&four)[4],
                                                const Accumulator (&tiles)[TILES_N][4], int pair,
                                                int lower, int lane)
{
    const bool odd = lane % 2;
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
        const Accumulator from_left = tiles[2 * pair][2 * lower + v];
        const Accumulator from_right = tiles[2 * pair + 1][2 * lower + v];
        if (SIZE == 1) {
            four[2 * v] = from_left;
            four[2 * v + 1] = from_right;
        } else {
            const Accumulator received =
                __shfl_xor_sync(0xffffffff, odd ? from_left : from_right, 1);
            four[v] = odd ? received : from_left;
            four[2 + v] = odd ? from_right : received;
        }
    }
}

// There are many copies of this, so it is kept short.
__device__ __forceinline__ void store_fours(Result* C, const Accumulators& accumulators, int row,
                                            int col, int M, int N, float alpha, const float* bias)
{
    const int lane = threadIdx.x % 32;
    row += lane / 4;
    #pragma unroll
    for (int pair = 0; pair < TILES_N / 2; ++pair) {
        const int c = col + column_of_four(pair, lane);
        const bool in_bounds = c < N;            // all four, or none of them
        float4 added = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (BIAS && bias && in_bounds) added = *(const float4*)(bias + c);
        #pragma unroll
        for (int i = 0; i < 2 * TILES_M; ++i) {
            Accumulator four[4];
            Result4 result;
            four_neighbours(four, accumulators[i / 2], pair, i % 2, lane);
            combine(result.c[0], four[0], alpha, 0.0f, added.x);
            combine(result.c[1], four[1], alpha, 0.0f, added.y);
            combine(result.c[2], four[2], alpha, 0.0f, added.z);
            combine(result.c[3], four[3], alpha, 0.0f, added.w);
            if (in_bounds && row + 8 * i < M)
                *(Result4*)(C + (size_t)(row + 8 * i) * N + c) = result;
        }
    }
}
