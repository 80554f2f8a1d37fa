// 15  Who holds what
// Idea:    the elements of two tiles are numbers that tell their place, and each lane of a warp
//          writes down which it has once they have come from swizzled tiles as in 15_mma_sync.cu,
//          and which sums it has after a product.
// Launch:  one block of 32 threads, with the dynamic shared memory of both tiles.
// Takes:   A: BM×BK, B: BK×BN, row-major, of the type that DTYPE says; of_a, of_b, of_c: a row for
//          each lane, of the words of A, of B, and of the sums, for the first step along K. BM = WM,
//          BN = WN. From sm_80 on.

#define DOWN (WM / 16)
#define ACROSS (WN / 8)

#include "mma_operands.cuh"

extern "C" __global__ void lanes(const uint4* A, const uint4* B, unsigned (*of_a)[DOWN][4],
                                 unsigned (*of_b)[ACROSS][2], Sum (*of_c)[DOWN][ACROSS][4])
{
    extern __shared__ uint4 shared[];
    uint4 *a_tile = shared, *b_tile = shared + BM * A_CHUNKS;
    const int lane = threadIdx.x;
    for (int i = lane; i < BM * A_CHUNKS; i += 32)
        a_tile[place_in_a(i / A_CHUNKS, i % A_CHUNKS)] = A[i];
    for (int i = lane; i < BK * B_CHUNKS; i += 32)
        b_tile[place_in_b(i / B_CHUNKS, i % B_CHUNKS)] = B[i];
    __syncwarp();

    unsigned a[DOWN][4], b[ACROSS][2];
    load_a(a, (unsigned)__cvta_generic_to_shared(a_tile), my_place_in_a(0, lane), 0);
    load_b(b, (unsigned)__cvta_generic_to_shared(b_tile), my_place_in_b(0, lane), 0);
    for (int i = 0; i < DOWN; ++i) {
        for (int word = 0; word < 4; ++word) of_a[lane][i][word] = a[i][word];
        for (int j = 0; j < ACROSS; ++j) {
            Sum sums[4] = {};
            multiply_piece(sums, a[i], b[j]);
            for (int r = 0; r < 4; ++r) of_c[lane][i][j][r] = sums[r];
        }
    }
    for (int j = 0; j < ACROSS; ++j)
        for (int word = 0; word < 2; ++word) of_b[lane][j][word] = b[j][word];
}
