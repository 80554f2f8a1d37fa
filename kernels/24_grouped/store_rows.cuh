// The epilogue of tma_epilogue.cuh where the rows below a tile's own belong to the next product.
#pragma once

#include "stage.cuh"
#include "warp_roles.cuh"
#include "tma_epilogue.cuh"

// By a warpgroup: store a piece of its part of C, which begins at (m, n), but only `rows` rows of
// it. TMA stores whole boxes of 64 rows; of fewer, threads store 16 bytes each, 8 threads a row.
__device__ __forceinline__ void store_rows(const RoundedPairs& rounded, int piece,
                                           StoreBuffer (&buffers)[STORE_BUFFERS],
                                           const TensorMap& map_c, ElementC* C, int N, int m, int n,
                                           int rows, int warpgroup)
{
    if (rows <= 0) return;
    const bool whole = rows >= WARPGROUP_ROWS;
    const int thread = threadIdx.x % WARPGROUP_THREADS;
    StoreBuffer& buffer = buffers[piece % STORE_BUFFERS];
    // Wait until the last store from this buffer has read it. Pieces that threads store are no
    // stores of TMA and do not count: among them, the last one may be from this buffer.
    if (thread == 0) {
        if (whole) tma_store_wait_read<STORE_BUFFERS - 1>();
        else tma_store_wait_read<0>();
    }
    named_barrier_sync<WARPGROUP_THREADS>(warpgroup + 1);          // the buffer is free
    store_to_buffer(shared_address(buffer), rounded + piece * PIECE_PAIRS);
    fence_async_proxy();                                           // before TMA reads the buffer
    named_barrier_sync<WARPGROUP_THREADS>(warpgroup + 1);          // all threads have stored
    n += piece * PIECE_COLUMNS;
    if (whole) {
        if (thread == 0) tma_store(map_c, m, n, shared_address(buffer));
        return;
    }
    constexpr int CHUNKS = ROW_BYTES / 16, ROWS_AT_A_TIME = WARPGROUP_THREADS / CHUNKS;
    const int chunk = thread % CHUNKS, col = n + chunk * (PIECE_COLUMNS / CHUNKS);
    if (col >= N) return;                        // N is a multiple of 8: a chunk is in C or not
    for (int row = thread / CHUNKS; row < rows; row += ROWS_AT_A_TIME)
        *(float4*)(C + (size_t)(m + row) * N + col) =
            *(const float4*)(buffer + row * ROW_BYTES + (chunk ^ row % 8) * 16);
}
