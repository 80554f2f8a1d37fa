// 10  Register banks
// Idea:    spend nearly every issue slot on an FMA, and let none wait for its operands. The order of
//          the FMAs reuses one operand from each to the next, the next column of A and row of B are
//          in registers before they are needed, and no warp waits for the block.
// Before:  09_double_buffering.cu met a barrier of the block after each step, and left the order
//          of the FMAs to the assembler.
// Launch:  block ((BM / TM) * (BN / TN)), grid (ceil(N / BN), ceil(M / BM)); the tiles lie in
//          dynamic shared memory.
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N is no multiple of 4, B is moved by single elements.
//          STAGES 3: asynchronous copies, from sm_80 on. STAGES 1: through registers.
// PTXAS, the assembler's level of optimization, is an option of the compiler: 1 keeps the order of
// the FMAs that is written here.

#include "staging.cuh"
#include "pipeline.cuh"

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 256                                   // columns
#endif
#ifndef BK
#define BK 32                                    // how far along K one stage goes
#endif
#ifndef TM
#define TM 8                                     // rows of C that a thread computes
#endif
#ifndef TN
#define TN 16                                    // columns
#endif
#ifndef STAGES
#define STAGES 3                                 // places of the ring of tiles
#endif
#ifndef ORDER
#define ORDER 1                                  // of the FMAs. 0: row by row. 1: snaking columns
#endif
#ifndef GROUP
#define GROUP 8                                  // rows of blocks that go through the grid together
#endif
#ifndef CHUNK
#define CHUNK 8                                  // steps along K that are written out in a row
#endif
#ifndef PAIRS
#define PAIRS 0                                  // 1: neighbouring lanes read the same, see below
#endif
#define PAD 4                                    // of A's tile, against bank conflicts
#define LANES_DOWN 4                             // a warp's lanes: 4 down, 8 across
#define LANES_ACROSS 8
#define WM (LANES_DOWN * TM)                     // rows of C that a warp computes
#define WN (LANES_ACROSS * TN)                   // columns
#define THREADS ((BM / TM) * (BN / TN))
#define RESIDENT_THREADS (TM * TN == 128 ? 256 : 512)      // for which the registers suffice
#define MIN_BLOCKS (RESIDENT_THREADS > THREADS ? RESIDENT_THREADS / THREADS : 1)
#define A_BYTES (4 * BK * (BM + PAD))

struct Tiles {
    float a[BK][BM + PAD];                       // transposed: a[k][row]
    float b[BK][BN];
};

// The two matrices and the block's corner in them.
struct Inputs {
    const float *A, *B;
    int M, N, K, top, left;
    bool whole;                                  // all of the tile is there, N a multiple of 4
};

// My column of A's tile and row of B's, for one k.
struct Operands {
    float a[TM], b[TN];
};

__device__ __forceinline__ void read(Operands& mine, const float* a, const float* b)
{
    #pragma unroll
    for (int p = 0; p < TM / 4; ++p)
        *(float4*)&mine.a[4 * p] = *(const float4*)&a[p * LANES_DOWN * 4];
    #pragma unroll
    for (int q = 0; q < TN / 4; ++q)
        *(float4*)&mine.b[4 * q] = *(const float4*)&b[q * LANES_ACROSS * 4];
}

// The first line of the outer product, a column or a row, which is done ahead: see below.
__device__ __forceinline__ void begin(float (&sums)[TM][TN], const Operands& mine)
{
    #pragma unroll
    for (int n = 0; n < (ORDER ? TM : TN); ++n) {
        const int i = ORDER ? TM - 1 - n : 0, j = ORDER ? 0 : n;
        sums[i][j] += mine.a[i] * mine.b[j];
    }
}

// The outer product, or the rest of one that has BEGUN. Down one column and up the next, every FMA
// shares an operand with the one before.
template <bool BEGUN>
__device__ __forceinline__ void multiply(float (&sums)[TM][TN], const Operands& mine)
{
    #pragma unroll
    for (int line = BEGUN; line < (ORDER ? TN : TM); ++line)
        #pragma unroll
        for (int n = 0; n < (ORDER ? TM : TN); ++n) {
            const int i = ORDER ? (line % 2 ? n : TM - 1 - n) : line, j = ORDER ? line : n;
            sums[i][j] += mine.a[i] * mine.b[j];
        }
}

#if STAGES == 1

// My part of a stage on its way from global memory, in registers.
struct Parts {
    float4 a[FOURS(BM * BK)], b[FOURS(BK * BN)];
};

template <bool INSIDE>
__device__ __forceinline__ void fetch(Parts& parts, const Inputs& in, int tile_k)
{
    fetch_columns<INSIDE, THREADS, BM>(parts.a, in.A, in.top, tile_k, in.M, in.K);
    fetch_rows<INSIDE, THREADS, BN>(parts.b, in.B, tile_k, in.left, in.K, in.N);
}

__device__ __forceinline__ void fetch(Parts& parts, const Inputs& in, int tile_k)
{
    if (in.whole && in.K % 4 == 0 && tile_k + BK <= in.K)
        fetch<true>(parts, in, tile_k);
    else
        fetch<false>(parts, in, tile_k);
}

__device__ __forceinline__ void keep(Tiles& tiles, const Parts& parts)
{
    keep_columns<THREADS, BM>(tiles.a, parts.a);
    keep_rows<THREADS>(tiles.b, parts.b);
}

#else

// Where my copies of the next stage begin, and how far it is from there to the matrices' ends.
struct Source {
    const float *a, *b;
    int rows, a_k, cols, b_k;
};

// B is moved by four neighbours, or one by one: a row of its tile by so many threads.
__device__ __forceinline__ int b_width(int N) { return N % 4 ? 1 : 4; }

__device__ __forceinline__ Source source(const Inputs& in)
{
    const int row = threadIdx.x / 8, a_k = threadIdx.x % 8, width = b_width(in.N);
    const int b_k = threadIdx.x * width / BN, col = threadIdx.x * width % BN;
    return {in.A + (size_t)(in.top + row) * in.K + a_k, in.B + (size_t)b_k * in.N + in.left + col,
            in.M - in.top - row, in.K - a_k, in.N - in.left - col, in.K - b_k};
}

// Start my copies of one stage. A is transposed on the way, an element a copy: 8 neighbours along K
// of 4 rows by a warp, which are whole sectors and different banks.
template <bool INSIDE, int WIDTH>
__device__ __forceinline__ void fetch(unsigned tiles, const Source& from, const Inputs& in)
{
    const unsigned a = tiles + 4 * (threadIdx.x % 8 * (BM + PAD) + threadIdx.x / 8);
    #pragma unroll
    for (int row = 0; row < BM; row += THREADS / 8)
        #pragma unroll
        for (int k = 0; k < BK; k += 8)
            start_copy<INSIDE, 4>(a + 4 * (k * (BM + PAD) + row), from.a + (size_t)row * in.K + k,
                                  row < from.rows && k < from.a_k);
    const unsigned b = tiles + A_BYTES + 4 * threadIdx.x * WIDTH;
    #pragma unroll
    for (int k = 0; k < BK; k += THREADS * WIDTH / BN)
        start_copy<INSIDE, 4 * WIDTH>(b + 4 * k * BN, from.b + (size_t)k * in.N,
                                      from.cols > 0 && k < from.b_k);
}

__device__ __forceinline__ void fetch(unsigned tiles, Source& from, const Inputs& in)
{
    if (in.whole && from.b_k >= BK)
        fetch<true, 4>(tiles, from, in);
    else if (b_width(in.N) == 4)
        fetch<false, 4>(tiles, from, in);
    else
        fetch<false, 1>(tiles, from, in);
    from.a += BK;
    from.b += (size_t)BK * in.N;
    from.a_k -= BK;
    from.b_k -= BK;
}

#endif

// A @ B for one tile. What becomes of a thread's sums is said by finish(sums, row, col, inside): its
// first one belongs to (row, col) of C, the others as below; `inside`: all are known to be in C.
template <class Finish>
__device__ __forceinline__ void product(const float* __restrict__ A, const float* __restrict__ B,
                                        int M, int N, int K, const Finish& finish)
{
    extern __shared__ __align__(16) Tiles ring[];

    // Blocks that run at the same time shall share tiles in L2: GROUP rows of blocks go together.
    const int id = blockIdx.y * gridDim.x + blockIdx.x;
    const int group = id / (GROUP * gridDim.x), above = group * GROUP;
    const int rows = min((int)gridDim.y - above, GROUP), within = id - above * gridDim.x;
    const int top = (above + within % rows) * BM, left = within / rows * BN;
    const Inputs in = {A, B, M, N, K, top, left,
                       top + BM <= M && left + BN <= N && N % 4 == 0};

    // Block to warp to lane. Lanes lie row by row: eight neighbours read 128 bytes of B. PAIRS is the
    // order of 08 and 09 with its fewer wavefronts: bits 0, 2, 3 of the lane go across.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int across = PAIRS ? lane % 2 + lane / 4 % 4 * 2 : lane % 8;
    const int down = PAIRS ? lane / 2 % 2 + lane / 16 * 2 : lane / 8;
    const int y = warp / (BN / WN) * WM + down * 4;            // my first row of the block's tile
    const int x = warp % (BN / WN) * WN + across * 4;          // my first column of it

    const int stages = max(1, (K + BK - 1) / BK);
    int place = 0;                               // of the ring, that is multiplied
#if STAGES == 1
    Parts parts;
    fetch(parts, in, 0);
    keep(ring[0], parts);
    __syncthreads();
    if (stages > 1) fetch(parts, in, BK);
#else
    __shared__ unsigned long long barriers[2 * STAGES];
    const unsigned full = shared_address(barriers), empty = full + 8 * STAGES;
    const unsigned tiles = shared_address(ring);
    if (threadIdx.x < STAGES) {
        set_up(full + 8 * threadIdx.x, THREADS);
        set_up(empty + 8 * threadIdx.x, THREADS / 32);
    }
    __syncthreads();
    Source from = source(in);
    #pragma unroll 1
    for (int stage = 0; stage < STAGES - 1 && stage < stages; ++stage) {
        fetch(tiles + stage * (unsigned)sizeof(Tiles), from, in);
        arrive_when_copied(full + 8 * stage);
    }
    int parity = 0;                              // of the place's current round
    wait_for(full, 0);
#endif

    float sums[TM][TN] = {};
    Operands mine[2];                            // for one k, and for the next
    const float *a = &ring[0].a[0][y], *b = &ring[0].b[0][x];
    read(mine[0], a, b);
    begin(sums, mine[0]);

    // Where the loop branches, the assembler waits for what was read last, unless it was needed
    // before. So the first line of an outer product comes before the branch, the rest after it.
    int stage = 0, chunks = BK / CHUNK;          // chunks of this stage that are left
    #pragma unroll 1
    while (true) {
        #pragma unroll
        for (int k = 0; k < CHUNK - 1; ++k) {
            read(mine[(k + 1) % 2], a + (k + 1) * (BM + PAD), b + (k + 1) * BN);
            if (k == 0)
                multiply<true>(sums, mine[0]);
            else
                multiply<false>(sums, mine[k % 2]);
        }
        begin(sums, mine[(CHUNK - 1) % 2]);
        a += CHUNK * (BM + PAD);
        b += CHUNK * BN;
        if (--chunks == 0) {
            if (++stage == stages) break;
            chunks = BK / CHUNK;
#if STAGES == 1
            // The other place was read before the last barrier: it may be overwritten now.
            place ^= 1;
            keep(ring[place], parts);
            __syncthreads();
            if (stage + 1 < stages) fetch(parts, in, (stage + 1) * BK);
#else
            __syncwarp();
            if (lane == 0) arrive(empty + 8 * place);
            // The place that was read before this one is the next to be filled.
            if (stage + STAGES - 2 < stages) {
                const int freed = place == 0 ? STAGES - 1 : place - 1;
                wait_for(empty + 8 * freed, place == 0 ? parity ^ 1 : parity);
                fetch(tiles + freed * (unsigned)sizeof(Tiles), from, in);
                arrive_when_copied(full + 8 * freed);
            }
            if (++place == STAGES) { place = 0; parity ^= 1; }
            wait_for(full + 8 * place, parity);
#endif
            a = &ring[0].a[0][y] + place * (int)(sizeof(Tiles) / 4);
            b = &ring[0].b[0][x] + place * (int)(sizeof(Tiles) / 4);
        }
        read(mine[0], a, b);
        multiply<true>(sums, mine[(CHUNK - 1) % 2]);
        begin(sums, mine[0]);
    }
    multiply<true>(sums, mine[(CHUNK - 1) % 2]);

    finish(sums, top + y, left + x, in.whole);
}

// Where in C my i-th row of sums lies, and my q-th group of four columns, from the first one.
__device__ __forceinline__ int row_of(int first, int i)
{
    return first + i / 4 * LANES_DOWN * 4 + i % 4;
}

__device__ __forceinline__ int col_of(int first, int q) { return first + q * LANES_ACROSS * 4; }

#ifndef EPILOGUE                                 // rung 11 is all of the above, with an end of its own

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
register_banks(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta)
{
    product(A, B, M, N, K, [=](const float (&sums)[TM][TN], int row, int col, bool inside) {
        #pragma unroll
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int q = 0; q < TN / 4; ++q)
                store_four(C, row_of(row, i), col_of(col, q), M, N, &sums[i][4 * q],
                           alpha, beta, inside);
    });
}

#endif
