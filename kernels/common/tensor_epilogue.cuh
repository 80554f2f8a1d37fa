// The epilogue from tensor memory: each of four warps loads its 32 lanes, rows of C, converts them,
// and stores them by TMA in pieces of 64 columns, from a buffer of its own. So no warp waits for
// another one. map_c has boxes of 32 rows of 128 bytes, swizzled by 128 bytes.
// Before it: BN, the columns of a tile.
#pragma once

#include "output_type.cuh"
#include "pair.cuh"

constexpr int EPILOGUE_WARPS = 4;                // for 128 lanes: a warp reaches 32 of them
constexpr int PIECE_COLUMNS = ROW_BYTES / (int)sizeof(ElementC);
// Of a warp: one is filled while another is stored, where the pieces of a tile alternate.
constexpr int STORE_BUFFERS = BN % (2 * PIECE_COLUMNS) == 0 ? 2 : 1;

struct __align__(SWIZZLE_PERIOD) StoreBuffer {
    char rows[32][ROW_BYTES];
};

// sums = alpha * sums + beta * C, for the piece of a thread's row m from column n on. Where beta is
// 0, C is not read.
__device__ __forceinline__ void apply_alpha_beta(float (&sums)[PIECE_COLUMNS], const ElementC* C,
                                                 int m, int n, int M, int N, float alpha,
                                                 float beta)
{
    #pragma unroll
    for (int i = 0; i < PIECE_COLUMNS; ++i) {
        sums[i] *= alpha;
        if (beta != 0.0f && m < M && n + i < N) sums[i] += beta * to_float(C[(size_t)m * N + n + i]);
    }
}

// A thread's row of a piece into the buffer, 16 bytes at a time, swizzled: the 8 lanes whose bytes
// go together write to 8 different chunks, so they have no bank conflict.
__device__ __forceinline__ void store_to_buffer(StoreBuffer& buffer,
                                                const float (&sums)[PIECE_COLUMNS])
{
    const int row = threadIdx.x % 32;
    #pragma unroll
    for (int chunk = 0; chunk < 8; ++chunk) {
        const float* eight = sums + 8 * chunk;
        *(uint4*)&buffer.rows[row][(chunk ^ row % 8) * 16] =
            make_uint4(round_pair(eight[0], eight[1]), round_pair(eight[2], eight[3]),
                       round_pair(eight[4], eight[5]), round_pair(eight[6], eight[7]));
    }
}

// By a warp: store its sums, which begin at this address, to C, from (m, n) on. Arrives at `empty`
// once they are in registers, while the last piece is still to be stored.
__device__ __forceinline__ void store_sums(unsigned sums, StoreBuffer (&buffers)[STORE_BUFFERS],
                                           const TensorMap& map_c, const ElementC* C, int m, int n,
                                           int M, int N, float alpha, float beta, unsigned empty)
{
    const int lane = threadIdx.x % 32;
    for (int column = 0; column < BN; column += PIECE_COLUMNS) {
        float piece[PIECE_COLUMNS];
        tensor_load(piece, sums + column);
        tensor_load(piece + 32, sums + column + 32);
        tensor_load_wait();
        if (column + PIECE_COLUMNS == BN) {      // the next tile but one may be multiplied into them
            tcgen05_fence_before();
            __syncwarp();
            if (lane == 0) mbarrier_arrive_in_pair(empty);
        }
        if (alpha != 1.0f || beta != 0.0f)
            apply_alpha_beta(piece, C, m + lane, n + column, M, N, alpha, beta);

        StoreBuffer& buffer = buffers[column / PIECE_COLUMNS % STORE_BUFFERS];
        if (lane == 0) tma_store_wait_read<STORE_BUFFERS - 1>();
        __syncwarp();                            // the buffer is free
        store_to_buffer(buffer, piece);
        fence_async_proxy();                     // before TMA reads it
        __syncwarp();                            // all lanes have stored
        if (lane == 0) tma_store(map_c, m, n + column, shared_address(&buffer));
    }
}
