// From totals to C: alpha and beta, and the store. Each warp stores its 16 rows by itself, in
// pieces of up to 128 bytes a row, through a buffer in shared memory that only it uses.
#pragma once

#define OUT_BFLOAT16 1                           // unless C is float32

#include "blocks_stage.cuh"
#include "output_type.cuh"

constexpr int WARP_ROWS = 16;
constexpr int CHUNK_COLUMNS = 16 / (int)sizeof(ElementC);
constexpr int PIECE_COLUMNS = 8 * CHUNK_COLUMNS;

static_assert(!OUT32 || BN % 32 == 0, "float32 is stored in whole pieces");

typedef char StoreBuffer[WARP_ROWS * ROW_BYTES];

// totals = alpha * totals + beta * C, for 64 rows from (m, n) of C on. Where beta is 0, C is not
// read: it may hold anything, NaN included.
template <int COUNT>
__device__ __forceinline__ void apply_alpha_beta(float (&totals)[COUNT], const ElementC* C, int m,
                                                 int n, int M, int N, float alpha, float beta)
{
    if (alpha == 1.0f && beta == 0.0f) return;
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int row = m + accumulator_row(i), col = n + accumulator_column(i);
        totals[i] *= alpha;
        if (beta != 0.0f && row < M && col < N)
            totals[i] += beta * to_float(C[(size_t)row * N + col]);
    }
}

// Where chunk c, of 16 bytes, of a row is in a buffer. The bits of the row are reversed, so that
// neighbouring rows that are not full lie in other banks.
__device__ __forceinline__ int buffer_place(int row, int chunk)
{
    const int reversed = row % 2 * 4 + row / 2 % 2 * 2 + row / 4 % 2;
    return row * ROW_BYTES + (chunk ^ reversed) * 16;
}

// volatile, so that the compiler does not keep what follows from it in registers all the time.
__device__ __forceinline__ int lane_of_warp()
{
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

// A thread's part of a piece of COLUMNS into its warp's buffer: totals from `first` on.
template <int COLUMNS>
__device__ __forceinline__ void store_to_buffer(unsigned buffer,
                                                const float (&totals)[ACCUMULATORS], int first,
                                                int lane)
{
#if OUT32
    // Chunks 2j + t / 2 of rows g and g + 8. Half a warp stores to all banks once.
    const int g = lane / 4, t = lane % 4;
    #pragma unroll
    for (int i = 0; i < 16; i += 2) {
        const unsigned to = buffer + buffer_place(g + i / 2 % 2 * 8, i / 4 * 2 + t / 2) + t % 2 * 8;
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                     :: "r"(to), "f"(totals[first + i]), "f"(totals[first + i + 1]) : "memory");
    }
#else
    // stmatrix: lane l gives the address of row l % 8 of matrix l / 8.
    #pragma unroll
    for (int i = 0; i < COLUMNS / 2; i += 8) {             // four matrices of 8×8 at a time
        PairC pairs[4];
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            pairs[j] = round_pair(totals[first + i + 2 * j], totals[first + i + 2 * j + 1]);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(buffer + buffer_place(lane % WARP_ROWS, i / 4 + lane / WARP_ROWS)),
                        "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3]) : "memory");
    }
#endif
}

// By a warp: COLUMNS of its buffer to C, from (m, n) on. Rows of C begin at multiples of 16 bytes,
// so a chunk is in C or it is not.
template <int COLUMNS>
__device__ __forceinline__ void store_from_buffer(const StoreBuffer& buffer, ElementC* C, int m,
                                                  int n, int M, int N, int lane)
{
    constexpr int CHUNKS = COLUMNS / CHUNK_COLUMNS;        // of a row
    #pragma unroll
    for (int i = 0; i < WARP_ROWS * CHUNKS; i += 32) {
        const int row = (i + lane) / CHUNKS, chunk = (i + lane) % CHUNKS;
        const int col = n + chunk * CHUNK_COLUMNS;
        const float4 bits = *(const float4*)(buffer + buffer_place(row, chunk));
        if (m + row < M && col < N) *(float4*)(C + (size_t)(m + row) * N + col) = bits;
    }
}

// By a warp: store its 16 rows of a wave, of which the first is row m of C, from column n on.
template <int FIRST = 0>
__device__ __forceinline__ void store_rows_of_warp(const float (&totals)[ACCUMULATORS],
                                                   StoreBuffer& buffer, ElementC* C, int m, int n,
                                                   int M, int N, int lane)
{
    constexpr int COLUMNS = BN - FIRST < PIECE_COLUMNS ? BN - FIRST : PIECE_COLUMNS;
    __syncwarp();                                          // all have loaded from the buffer
    store_to_buffer<COLUMNS>(shared_address(buffer), totals, FIRST / 2, lane);
    __syncwarp();                                          // all have stored to it
    store_from_buffer<COLUMNS>(buffer, C, m, n + FIRST, M, N, lane);
    if constexpr (FIRST + COLUMNS < BN)
        store_rows_of_warp<FIRST + COLUMNS>(totals, buffer, C, m, n, M, N, lane);
}
