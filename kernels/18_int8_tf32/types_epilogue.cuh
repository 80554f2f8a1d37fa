// From accumulators to C, for 18_int8_tf32.cu: alpha and beta, and the store by TMA through buffers
// in shared memory, in pieces of two boxes of 32×32: 64 rows and 32 columns of C, or, where B is
// stored K×N, 32 rows and 64 columns.
#pragma once

#include "types_settings.cuh"
#if OP_B
#include "types_along_k.cuh"
#else
#include "types_turned.cuh"
#endif
#include "named_barrier.cuh"
#include "tma.cuh"

constexpr int PIECES = ACCUMULATORS / 16;
constexpr int BOXES = 2;                         // of a piece
// One is filled while another is stored, where the pieces alternate and there is room for two.
constexpr int STORE_BUFFERS = PIECES % 2 == 0 && CONSUMERS <= 2 ? 2 : 1;

typedef char StoreBuffer[BOXES * BOX_BYTES];

#if DTYPE == 2

// accumulators = alpha * accumulators + beta * C, for the warpgroup's part of C from (m, n) on.
// Where beta is 0, C is not read: it may hold anything, NaN included. Two neighbours at once: N is
// even, so both are in C or none; and so a warp reads whole sectors.
__device__ __forceinline__ void apply_alpha_beta(Accumulator (&accumulators)[ACCUMULATORS],
                                                 const Result* C, int m, int n, int M, int N,
                                                 float alpha, float beta)
{
    if (alpha == 1.0f && beta == 0.0f) return;
    const int first_row = m + row_in_part(0), first_col = n + column_in_part(0);
    const Result* part = C + (size_t)first_row * N + first_col;
    #pragma unroll
    for (int pair = 0; pair < ACCUMULATORS / 2; ++pair) {
        const int i = pair / 2 * 4 + pair % 2 * (2 / NEXT_COLUMN);
        Accumulator &first = accumulators[i], &second = accumulators[i + NEXT_COLUMN];
        first *= alpha;
        second *= alpha;
        const int down = row_in_part(i) - row_in_part(0);
        const int across = column_in_part(i) - column_in_part(0);
        if (beta != 0.0f && first_row + down < M && first_col + across < N) {
            const float2 old = *(const float2*)(part + (size_t)down * N + across);
            first += beta * old.x;
            second += beta * old.y;
        }
    }
}

#endif

#if DTYPE == 3
#define ACCUMULATOR "r"                          // an operand of asm
#else
#define ACCUMULATOR "f"
#endif

// Two neighbours in a row of C: accumulators i and i + NEXT_COLUMN, or with `other` those of j.
__device__ __forceinline__ void store_pair(unsigned address,
                                           const Accumulator (&accumulators)[ACCUMULATORS], int i,
                                           int j, bool other)
{
    const Accumulator first = other ? accumulators[j] : accumulators[i];
    const Accumulator second =
        other ? accumulators[j + NEXT_COLUMN] : accumulators[i + NEXT_COLUMN];
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};"
                 :: "r"(address), ACCUMULATOR(first), ACCUMULATOR(second) : "memory");
}

// A thread's 16 accumulators of one piece into the buffer, swizzled. Each half of a warp stores to
// all banks once, if some lanes store two pairs of their accumulators in the other order.
__device__ __forceinline__ void store_to_buffer(unsigned buffer,
                                                const Accumulator (&accumulators)[ACCUMULATORS],
                                                int piece)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#if OP_B
    // Chunks 2j + t / 2 of rows g: of two rows that differ in bit 0 the swizzle exchanges just the
    // two chunks of a j. So odd rows store them with j + 2 instead of j.
    const bool other = g % 2;
    #pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
        const int i = piece * 16 + pair * 2, row = row_in_part(i);
        const int chunk = (pair / 2 * 2 + t / 2) ^ row % 8 ^ other * 4;
        const unsigned to = buffer + row * ROW_BYTES + chunk * 16 + t % 2 * 8;
        store_pair(to, accumulators, i, i + 8, other);
        store_pair(to ^ 64, accumulators, i + 8, i, other);
    }
#else
    // Rows 2t, and chunks c and c + 4: the swizzle of rows 4 apart exchanges just these. So lanes
    // with t of 2 and 3 store the odd row first.
    const bool other = t / 2;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int i = piece * 16 + j * 4, row = j * 8 + t * 2 + other;
        const unsigned to = buffer + box_of_warp() * BOX_BYTES + row * ROW_BYTES
                          + (chunk_of_lane() ^ row % 8) * 16 + g % 2 * 8;
        store_pair(to, accumulators, i, i + 1, other);
        store_pair(to ^ (ROW_BYTES + 16), accumulators, i + 1, i, other);
    }
#endif
}

// By a warpgroup: store one of the PIECES of its part of C, which begins at (m, n). The copies to C
// may still be under way at the end.
__device__ __forceinline__ void store_piece(const Accumulator (&accumulators)[ACCUMULATORS],
                                            int piece, StoreBuffer (&buffers)[STORE_BUFFERS],
                                            const TensorMap& map_c, int m, int n, int warpgroup)
{
    const bool leader = threadIdx.x % WARPGROUP_THREADS == 0;
    const unsigned buffer = shared_address(buffers[piece % STORE_BUFFERS]);
    // Wait until the last stores from this buffer have read it. Barrier 0 is __syncthreads()'s.
    if (leader) tma_store_wait_read<BOXES * (STORE_BUFFERS - 1)>();
    named_barrier_sync<WARPGROUP_THREADS>(warpgroup + 1);          // the buffer is free
    store_to_buffer(buffer, accumulators, piece);
    fence_async_proxy();                                           // before TMA reads the buffer
    named_barrier_sync<WARPGROUP_THREADS>(warpgroup + 1);          // all threads have stored
    if (leader) {
#if OP_B
        tma_store(map_c, m, n + piece * BOX, buffer);
        tma_store(map_c, m + BOX, n + piece * BOX, buffer + BOX_BYTES);
#else
        tma_store(map_c, m + piece * BOX, n, buffer);
        tma_store(map_c, m + piece * BOX, n + BOX, buffer + BOX_BYTES);
#endif
    }
}
