// 10  Register banks
// Idea:    spend nearly every issue slot on an FMA, and let few wait for operands. The order of the
//          FMAs reuses one operand from each to the next, the next column of A and row of B are in
//          registers before they are needed, and a ring of tiles takes the place of barriers at
//          which all warps of the block meet.
// Before:  09_double_buffering.cu met a barrier of the block after each step, and left the order
//          of the FMAs to the assembler.
// Launch:  block ((BM / TM) * (BN / TN)), grid (ceil(N / BN), ceil(M / BM)); the ring lies in
//          dynamic shared memory.
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N is no multiple of 4, B is moved by single elements. From
//          sm_80 on.
// register_tiles.cuh has the sizes, the outer product and the copies, pipeline.cuh has Ring. PTXAS,
// the assembler's level of optimization, is an option of the compiler: 1 keeps the order of the
// FMAs that is written there.

#include "register_tiles.cuh"

#ifndef RING_ALIGN
#define RING_ALIGN 128                            // bytes: rows of B's tiles begin at whole sectors
#endif

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
register_banks(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(RING_ALIGN) Tiles tiles[];     // the ring, at whole sectors
    __shared__ unsigned long long barriers[2 * STAGES];
    const Inputs in = of_this_block(A, B, M, N, K);

    // Block to warp to lane. Lanes lie row by row: eight neighbours read 128 bytes of B.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int y = warp / (BN / WN) * WM + lane / 8 * 4;        // my first row of the block's tile
    const int x = warp % (BN / WN) * WN + lane % 8 * 4;        // my first column of it

    const int stages = max(1, (K + BK - 1) / BK);
    Ring<STAGES> ring(barriers, THREADS);
    Source from = source(in);
    const auto fill = [&](int place) {           // with my part of the next stage
        fetch(tiles, place, from, in);
        ring.commit(place);
    };
    #pragma unroll 1
    for (int place = 0; place < STAGES - 1 && place < stages; ++place) fill(place);
    ring.wait();

    float sums[TM][TN] = {};
    Operands mine[2];                            // for one k, and for the next
    const float *first_a = &tiles[0].a[0][y], *first_b = &tiles[0].b[0][x];
    const float *a = first_a, *b = first_b;
    read(mine[0], a, b);
    multiply<0, 1>(sums, mine[0]);

    // Where the loop branches, the assembler waits for what was read last, unless it was needed
    // before. So the first column of an outer product comes before the branch, the others after it.
    int stage = 0, chunks = BK / CHUNK;          // chunks of this stage that are left
    #pragma unroll 1
    while (true) {
        #pragma unroll
        for (int k = 0; k < CHUNK - 1; ++k) {
            read(mine[(k + 1) % 2], a + (k + 1) * (BM + PAD), b + (k + 1) * BN);
            if (k > 0) multiply<0, 1>(sums, mine[k % 2]);
            multiply<1, TN>(sums, mine[k % 2]);
        }
        multiply<0, 1>(sums, mine[(CHUNK - 1) % 2]);
        a += CHUNK * (BM + PAD);
        b += CHUNK * BN;
        if (--chunks == 0) {
            if (++stage == stages) break;
            chunks = BK / CHUNK;
            ring.release(lane);
            if (stage + STAGES - 2 < stages) fill(ring.acquire());
            const int place = ring.wait();
            a = first_a + place * TILES_FLOATS;
            b = first_b + place * TILES_FLOATS;
        }
        read(mine[0], a, b);
        multiply<1, TN>(sums, mine[(CHUNK - 1) % 2]);
        multiply<0, 1>(sums, mine[0]);
    }
    multiply<1, TN>(sums, mine[(CHUNK - 1) % 2]);

    const int row = in.top + y, col = in.left + x;             // of my first sum in C
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q)
            store_four(C, row_of(row, i), col_of(col, q), M, N, &sums[i][4 * q], alpha, beta,
                       in.whole);
}
