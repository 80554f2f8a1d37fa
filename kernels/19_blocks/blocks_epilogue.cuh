// From totals to C: alpha and beta, and the store. Each warp stores its 16 rows by itself, by TMA,
// in pieces of 128 bytes a row, through buffers in shared memory that only it uses. map_c has boxes
// of 16 such rows, swizzled by 128 bytes.
#pragma once

#define OUT_BFLOAT16 1                           // unless C is float32

#include "blocks_stage.cuh"
#include "output_type.cuh"
#include "tma.cuh"

constexpr int WARP_ROWS = 16;
constexpr int PIECE_COLUMNS = ROW_BYTES / (int)sizeof(ElementC);
// One is filled while another is stored, where stages leave room for two.
constexpr int STORE_BUFFERS = BM > 128 ? 2 : 1;

static_assert(BN % PIECE_COLUMNS == 0, "C is stored in whole pieces");

// Of a warp. As an array of these begins with a multiple of SWIZZLE_PERIOD, so does each.
typedef char StoreBuffers[STORE_BUFFERS][WARP_ROWS * ROW_BYTES];

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

// volatile, so that the compiler does not keep what follows from it in registers all the time.
__device__ __forceinline__ unsigned lane_of_warp()
{
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

// A thread's totals of a piece, from `first` on, into its warp's buffer, swizzled.
__device__ __forceinline__ void store_to_buffer(unsigned buffer,
                                                const float (&totals)[ACCUMULATORS], int first,
                                                unsigned lane)
{
#if OUT32
    #pragma unroll
    for (int i = 0; i < PIECE_COLUMNS / 2; i += 2) {
        const unsigned row = lane / 4 + i / 2 % 2 * 8, chunk = i / 4 * 2 + lane % 4 / 2;
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                     :: "r"(buffer + row * ROW_BYTES + (chunk ^ row % 8) * 16 + lane % 2 * 8),
                        "f"(totals[first + i]), "f"(totals[first + i + 1]) : "memory");
    }
#else
    // stmatrix: lane l gives the address of row l % 8 of matrix l / 8.
    const unsigned row = lane % WARP_ROWS;
    #pragma unroll
    for (int i = 0; i < PIECE_COLUMNS / 2; i += 8) {       // four matrices of 8×8 at a time
        const unsigned chunk = i / 4 + lane / WARP_ROWS;
        PairC pairs[4];
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            pairs[j] = round_pair(totals[first + i + 2 * j], totals[first + i + 2 * j + 1]);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(buffer + row * ROW_BYTES + (chunk ^ row % 8) * 16), "r"(pairs[0]),
                        "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3]) : "memory");
    }
#endif
}

// By a warp: store its 16 rows, from (m, n) of C on, but only `rows` of them. TMA stores
// whole boxes, of which it leaves out what is outside of C; of fewer rows, threads store 16 bytes
// each. The copies to C may still be under way at the end.
__device__ __forceinline__ void store_rows_of_warp(const float (&totals)[ACCUMULATORS],
                                                   const StoreBuffers& buffers,
                                                   const TensorMap& map_c, ElementC* C, int m,
                                                   int n, int rows, int N)
{
    if (rows <= 0) return;
    const bool whole = rows >= WARP_ROWS;
    const unsigned lane = lane_of_warp();
    #pragma unroll
    for (int piece = 0; piece < BN / PIECE_COLUMNS; ++piece, n += PIECE_COLUMNS) {
        const auto& buffer = buffers[piece % STORE_BUFFERS];
        // Wait until the last store from this buffer has read it. Rows that threads store are no
        // stores of TMA and do not count: among them, the last one may be from this buffer.
        if (lane == 0) {
            if (whole) tma_store_wait_read<STORE_BUFFERS - 1>();
            else tma_store_wait_read<0>();
        }
        __syncwarp();                                      // the buffer is free
        store_to_buffer(shared_address(buffer), totals, piece * PIECE_COLUMNS / 2, lane);
        fence_async_proxy();                               // before TMA reads the buffer
        __syncwarp();                                      // all threads have stored
        if (whole) {
            if (lane == 0) tma_store(map_c, m, n, shared_address(buffer));
            continue;
        }
        constexpr int CHUNKS = ROW_BYTES / 16, CHUNK_COLUMNS = PIECE_COLUMNS / CHUNKS;
        const int chunk = lane % CHUNKS, col = n + chunk * CHUNK_COLUMNS;
        if (col < N)                             // a chunk is in C or not: N is a multiple of 8
            for (int row = lane / CHUNKS; row < rows; row += 32 / CHUNKS)
                *(float4*)(C + (size_t)(m + row) * N + col) =
                    *(const float4*)(buffer + row * ROW_BYTES + (chunk ^ row % 8) * 16);
    }
}
