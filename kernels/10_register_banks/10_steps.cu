// 10  Steps to it: a measurement beside 10_register_banks.cu, no rung of the ladder
// Idea:    what 10_register_banks.cu is not: steps on the way from 09 to it, and roads not taken. As
//          the macros are set here, it is that kernel.
//          STAGES 1: tiles go through registers into two buffers, and the warps of a block meet at a
//          barrier after each. Any other value: the ring.
//          ORDER 0: the FMAs of an outer product go row by row.
//          PAIRS 1: a warp's lanes lie as in 08 and 09, where neighbours read the same in pairs.
// Launch:  as 10_register_banks.cu, and it takes what that takes. STAGES 1: from any GPU on.

#include "staging.cuh"
#include "register_tiles.cuh"

#ifndef ORDER
#define ORDER 1                                  // of the FMAs. 0: row by row. 1: snaking columns
#endif
#ifndef PAIRS
#define PAIRS 0                                  // 1: bits 0, 2, 3 of the lane go across
#endif
#define LINES (ORDER ? TN : TM)                  // of an outer product: its columns or its rows

// Of the outer product, the lines from FIRST to END - 1.
template <int FIRST, int END>
__device__ __forceinline__ void multiply_lines(float (&sums)[TM][TN], const Operands& mine)
{
    #pragma unroll
    for (int line = FIRST; line < END; ++line)
        #pragma unroll
        for (int n = 0; n < (ORDER ? TM : TN); ++n) {
            const int i = ORDER ? (line % 2 ? n : TM - 1 - n) : line, j = ORDER ? line : n;
            sums[i][j] += mine.a[i] * mine.b[j];
        }
}

// My part of a stage on its way from global memory, in registers.
struct Parts {
    float4 a[FOURS(BM * BK)], b[FOURS(BK * BN)];
};

template <bool INSIDE>
__device__ __forceinline__ void bring(Parts& parts, const Inputs& in, int tile_k)
{
    fetch_columns<INSIDE, THREADS, BM>(parts.a, in.A, in.top, tile_k, in.M, in.K);
    fetch_rows<INSIDE, THREADS, BN>(parts.b, in.B, tile_k, in.left, in.K, in.N);
}

__device__ __forceinline__ void bring(Parts& parts, const Inputs& in, int tile_k)
{
    if (in.whole && in.K % 4 == 0 && tile_k + BK <= in.K)
        bring<true>(parts, in, tile_k);
    else
        bring<false>(parts, in, tile_k);
}

__device__ __forceinline__ void keep(Tiles& tiles, const Parts& parts)
{
    keep_columns<THREADS, BM>(tiles.a, parts.a);
    keep_rows<THREADS>(tiles.b, parts.b);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
register_banks(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(128) Tiles tiles[];
    const Inputs in = of_this_block(A, B, M, N, K);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int across = PAIRS ? lane % 2 + lane / 4 % 4 * 2 : lane % 8;
    const int down = PAIRS ? lane / 2 % 2 + lane / 16 * 2 : lane / 8;
    const int y = warp / (BN / WN) * WM + down * 4;
    const int x = warp % (BN / WN) * WN + across * 4;

    const int stages = max(1, (K + BK - 1) / BK);
#if STAGES == 1
    int place = 0;                               // the buffer that is multiplied
    Parts parts;
    bring(parts, in, 0);
    keep(tiles[0], parts);
    __syncthreads();
    if (stages > 1) bring(parts, in, BK);
#else
    __shared__ unsigned long long barriers[2 * STAGES];
    Ring<STAGES> ring(barriers, THREADS);
    Source from = source(in);
    const auto fill = [&](int place) {
        fetch(tiles, place, from, in);
        ring.commit(place);
    };
    #pragma unroll 1
    for (int place = 0; place < STAGES - 1 && place < stages; ++place) fill(place);
    ring.wait();
#endif

    float sums[TM][TN] = {};
    Operands mine[2];
    const float *first_a = &tiles[0].a[0][y], *first_b = &tiles[0].b[0][x];
    const float *a = first_a, *b = first_b;
    read(mine[0], a, b);
    multiply_lines<0, 1>(sums, mine[0]);

    int stage = 0, chunks = BK / CHUNK;
    #pragma unroll 1
    while (true) {
        #pragma unroll
        for (int k = 0; k < CHUNK - 1; ++k) {
            read(mine[(k + 1) % 2], a + (k + 1) * (BM + PAD), b + (k + 1) * BN);
            if (k > 0) multiply_lines<0, 1>(sums, mine[k % 2]);
            multiply_lines<1, LINES>(sums, mine[k % 2]);
        }
        multiply_lines<0, 1>(sums, mine[(CHUNK - 1) % 2]);
        a += CHUNK * (BM + PAD);
        b += CHUNK * BN;
        if (--chunks == 0) {
            if (++stage == stages) break;
            chunks = BK / CHUNK;
#if STAGES == 1
            // The other buffer was read before the last barrier: it may be overwritten now.
            place ^= 1;
            keep(tiles[place], parts);
            __syncthreads();
            if (stage + 1 < stages) bring(parts, in, (stage + 1) * BK);
#else
            ring.release(lane);
            if (stage + STAGES - 2 < stages) fill(ring.acquire());
            const int place = ring.wait();
#endif
            a = first_a + place * TILES_FLOATS;
            b = first_b + place * TILES_FLOATS;
        }
        read(mine[0], a, b);
        multiply_lines<1, LINES>(sums, mine[(CHUNK - 1) % 2]);
        multiply_lines<0, 1>(sums, mine[0]);
    }
    multiply_lines<1, LINES>(sums, mine[(CHUNK - 1) % 2]);

    const int row = in.top + y, col = in.left + x;
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q)
            store_four(C, row_of(row, i), col_of(col, q), M, N, &sums[i][4 * q], alpha, beta,
                       in.whole);
}
