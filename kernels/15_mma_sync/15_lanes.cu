// 15  Who holds what
// Idea:    the elements of two tiles are numbers that tell their row or column. Each lane of a warp
//          writes down which it has once they are loaded from swizzled tiles as in 15_mma_sync.cu,
//          and which accumulators it has after a product.
// Launch:  one block of 32 threads, with the dynamic shared memory of both tiles.
// Takes:   A: BM×BK, B: BK×BN, row-major, of the type that DTYPE says; of_a, of_b, of_c: a row for
//          each lane, of the words of A, of B, and of the accumulators, for the first step along K.
//          BM = WM, BN = WN. From sm_80 on.

#include "mma_operands.cuh"
#include "shared_address.cuh"

extern "C" __global__ void lanes(const uint4* A, const uint4* B, unsigned (*of_a)[TILES_M][4],
                                 unsigned (*of_b)[TILES_N][2],
                                 Accumulator (*of_c)[TILES_M][TILES_N][4])
{
    extern __shared__ uint4 shared[];
    uint4 *a_tile = shared, *b_tile = shared + BM * A_CHUNKS;
    const int lane = threadIdx.x;
    for (int i = lane; i < BM * A_CHUNKS; i += 32)
        a_tile[index_in_a(i / A_CHUNKS, i % A_CHUNKS)] = A[i];
    for (int i = lane; i < BK * B_CHUNKS; i += 32)
        b_tile[index_in_b(i / B_CHUNKS, i % B_CHUNKS)] = B[i];
    __syncwarp();

    Fragments fragments;
    load_fragments(fragments, shared_address(shared), lane_index_a(0, lane),
                   lane_index_b(0, lane), 0);
    for (int i = 0; i < TILES_M; ++i) {
        for (int word = 0; word < 4; ++word) of_a[lane][i][word] = fragments.a[i][word];
        for (int j = 0; j < TILES_N; ++j) {
            Accumulator c[4] = {};
            mma(c, fragments.a[i], fragments.b[j]);
            for (int r = 0; r < 4; ++r) of_c[lane][i][j][r] = c[r];
        }
    }
    for (int j = 0; j < TILES_N; ++j)
        for (int word = 0; word < 2; ++word) of_b[lane][j][word] = fragments.b[j][word];
}
