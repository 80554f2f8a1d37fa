// 15  Steps to it: a measurement beside 15_mma_sync.cu, no rung of the ladder
// Idea:    the ideas of 15_mma_sync.cu apart, in FP16. As the macros are set here, it is that kernel.
//          PADDING 1: tiles are not swizzled; a row has 16 bytes more, as in 14. 2: 32 bytes more, so
//          that all rows begin at multiples of 32 bytes.
//          STRIPS 1: C leaves through strips of shared memory, as in 14.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)), with the dynamic
//          shared memory of STAGES times a PaddedStage.
// Takes:   what 15_mma_sync.cu takes in FP16 without a bias. From sm_80 on.

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 256                                   // columns
#endif
#ifndef BK
#define BK 64                                    // how far along K one stage goes
#endif
#ifndef WM
#define WM 64                                    // rows of C that a warp computes
#endif
#ifndef WN
#define WN 64                                    // columns
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef GROUP
#define GROUP 8                                  // rows of blocks that go through the grid together
#endif
#ifndef PADDING
#define PADDING 0                                // of a row of a tile, in chunks of 16 bytes
#endif
#ifndef STRIPS
#define STRIPS 0                                 // 1: C leaves through shared memory
#endif
#define THREADS (32 * (BM / WM) * (BN / WN))
#define DOWN (WM / 16)                           // pieces of 16×8 of a warp's part of C
#define ACROSS (WN / 8)

#include "async_copy.cuh"
#include "mma_epilogue.cuh"
#include "mma_tiles.cuh"

// ---- tiles ---------------------------------------------------------------------------------------

constexpr int A_ROW = A_CHUNKS + PADDING, B_ROW = B_CHUNKS + PADDING;      // chunks

struct PaddedStage {
    uint4 a[BM * A_ROW];
    uint4 b[BK * B_ROW];
};

__device__ __forceinline__ int place_of_a(int row, int chunk)
{
    return PADDING ? row * A_ROW + chunk : place_in_a(row, chunk);
}

__device__ __forceinline__ int place_of_b(int k, int chunk)
{
    return PADDING ? k * B_ROW + chunk : place_in_b(k, chunk);
}

// So many chunks further in the same row.
__device__ __forceinline__ int further(int place, int chunks)
{
    return PADDING ? place + chunks : place ^ chunks;
}

// Start a step's part of my copies of a stage.
__device__ __forceinline__ void start(PaddedStage& stage, const Source& from, int step)
{
    const int a_chunk = threadIdx.x % A_CHUNKS, b_chunk = threadIdx.x % B_CHUNKS;
    #pragma unroll
    for (int i = A_SHARE * step / STEPS; i < A_SHARE * (step + 1) / STEPS; ++i)
        copy_chunk(stage.a + place_of_a(row_of_a(i), a_chunk),
                   from.a + (size_t)(i * (THREADS / A_CHUNKS)) * from.K,
                   from.k + a_chunk * CHUNK < from.K && from.top + row_of_a(i) < from.M);
    #pragma unroll
    for (int i = B_SHARE * step / STEPS; i < B_SHARE * (step + 1) / STEPS; ++i)
        copy_chunk(stage.b + place_of_b(row_of_b(i), b_chunk),
                   from.b + (size_t)(i * (THREADS / B_CHUNKS)) * from.N,
                   from.left + b_chunk * CHUNK < from.N && from.k + row_of_b(i) < from.K);
}

// The same of any matrix, element by element: it is there for edges, not for speed.
__device__ __forceinline__ void bring(PaddedStage& stage, const Source& from, int step)
{
    Element *a = (Element*)stage.a, *b = (Element*)stage.b;
    #pragma unroll 1
    for (int i = BM * BK * step / STEPS + threadIdx.x; i < BM * BK * (step + 1) / STEPS; i += THREADS) {
        const int row = i / BK, k = i % BK;
        const bool inside = from.top + row < from.M && from.k + k < from.K;
        a[place_of_a(row, k / CHUNK) * CHUNK + k % CHUNK] =
            inside ? from.A[(size_t)(from.top + row) * from.K + from.k + k] : 0;
    }
    #pragma unroll 1
    for (int i = BK * BN * step / STEPS + threadIdx.x; i < BK * BN * (step + 1) / STEPS; i += THREADS) {
        const int k = i / BN, column = i % BN;
        const bool inside = from.k + k < from.K && from.left + column < from.N;
        b[place_of_b(k, column / CHUNK) * CHUNK + column % CHUNK] =
            inside ? from.B[(size_t)(from.k + k) * from.N + from.left + column] : 0;
    }
}

// ---- products ------------------------------------------------------------------------------------

// What a warp multiplies in one step along K.
struct Operands {
    unsigned a[DOWN][4], b[ACROSS][2];
};

__device__ __forceinline__ void multiply(Sum (&sums)[DOWN][ACROSS][4], const Operands& mine)
{
    #pragma unroll
    for (int i = 0; i < DOWN; ++i)
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            const int across = i % 2 ? ACROSS - 1 - j : j;
            multiply_piece(sums[i][across], mine.a[i], mine.b[across]);
        }
}

// Those of one step of a stage.
__device__ __forceinline__ void load(Operands& mine, unsigned stage, int a, int b, int step)
{
    #pragma unroll
    for (int i = 0; i < DOWN; ++i)
        load_matrices(mine.a[i], stage + 16 * (further(a, 2 * step) + 16 * i * A_ROW));
    const unsigned tile = stage + sizeof(PaddedStage::a) + 16 * step * DEPTH * B_ROW;
    #pragma unroll
    for (int j = 0; j < ACROSS; j += 2) {
        unsigned words[4];
        load_transposed(words, tile + 16 * further(b, j));
        mine.b[j][0] = words[0];
        mine.b[j][1] = words[1];
        mine.b[j + 1][0] = words[2];
        mine.b[j + 1][1] = words[3];
    }
}

// sums += A @ B for my warp's part, which begins at row y and column x of the block's tile. CHUNKS:
// rows of A and B are whole chunks.
template <bool CHUNKS>
__device__ __forceinline__ void add_product(Sum (&sums)[DOWN][ACROSS][4], PaddedStage* stages,
                                            Source from, int y, int x)
{
    #pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (CHUNKS) start(stages[stage], from, step);
            else bring(stages[stage], from, step);
        }
        commit_copies();
        from.next();
    }
    wait_for_copies<STAGES - 2>();
    __syncthreads();                             // the first stage is here

    const int lane = threadIdx.x % 32;
    const int a = place_of_a(y + lane % 16, lane / 16);
    const int b = place_of_b(lane % 16, x / CHUNK + lane / 16);
    const unsigned first = (unsigned)__cvta_generic_to_shared(stages);
    unsigned now = first;                        // the stage that is multiplied
    int free = STAGES - 1;                       // the stage that is filled
    Operands mine[2];                            // for one step, and for the next
    load(mine[0], now, a, b, 0);
    #pragma unroll 1
    for (int left = from.K; left > 0; left -= BK) {
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step == STEPS - 1) {
                wait_for_copies<STAGES - 3>();
                __syncthreads();                 // the next stage is here, and all have read `now`
                now = now == first + (STAGES - 1) * sizeof(PaddedStage) ? first
                                                                        : now + sizeof(PaddedStage);
            }
            load(mine[(step + 1) % 2], now, a, b, (step + 1) % STEPS);
            if (CHUNKS) start(stages[free], from, step);
            multiply(sums, mine[step % 2]);
            if (!CHUNKS) bring(stages[free], from, step);
        }
        commit_copies();
        from.next();
        free = free == STAGES - 1 ? 0 : free + 1;
    }
    wait_for_copies<0>();
}

// ---- C -------------------------------------------------------------------------------------------

// The rows of a warp's pieces that lie side by side, with the padding of 14.
typedef float PaddedStrip[16][WN + 8];

// A warp's sums to C as in 14, four neighbours at a time, where beta is 0 and rows of C have a
// multiple of four elements.
__device__ __forceinline__ void store_strips(PaddedStrip& strip, Result* C,
                                             const Sum (&sums)[DOWN][ACROSS][4], int row, int col,
                                             int M, int N, float alpha)
{
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < DOWN; ++i) {
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j)
            #pragma unroll
            for (int lower = 0; lower < 2; ++lower)
                *(float2*)&strip[8 * lower + lane / 4][8 * j + lane % 4 * 2] =
                    make_float2(sums[i][j][2 * lower], sums[i][j][2 * lower + 1]);
        __syncwarp();
        #pragma unroll 4
        for (int f = lane; f < 16 * WN / 4; f += 32) {
            const int r = f / (WN / 4), c = f % (WN / 4) * 4;
            const float4 four = *(const float4*)&strip[r][c];
            Four out;
            combine(out.c[0], four.x, alpha, 0.0f, 0.0f);
            combine(out.c[1], four.y, alpha, 0.0f, 0.0f);
            combine(out.c[2], four.z, alpha, 0.0f, 0.0f);
            combine(out.c[3], four.w, alpha, 0.0f, 0.0f);
            const int y = row + 16 * i + r, x = col + c;
            if (y < M && x < N) *(Four*)(C + (size_t)y * N + x) = out;
        }
        __syncwarp();                            // all have read it before it is filled anew
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
mma_product(const Element* __restrict__ A, const Element* __restrict__ B, Result* __restrict__ C,
            int M, int N, int K, float alpha, float beta, const float* __restrict__ bias)
{
    extern __shared__ __align__(128) char shared[];

    int top, left;                                             // the block's corner of C
    find_corner(top, left);
    const int warp = threadIdx.x / 32;
    const int y = warp / (BN / WN) * WM, x = warp % (BN / WN) * WN;    // my warp's, within

    Sum sums[DOWN][ACROSS][4] = {};
    const Source from(A, B, M, N, K, top, left);
    if (N % CHUNK == 0 && K % CHUNK == 0)
        add_product<true>(sums, (PaddedStage*)shared, from, y, x);
    else
        add_product<false>(sums, (PaddedStage*)shared, from, y, x);

    const bool short_way = beta == 0.0f && N % 4 == 0;
    if (short_way && !STRIPS) {
        store_fours(C, sums, top + y, left + x, M, N, alpha, bias);
    } else {                                     // the strips lie where the stages were
        __syncthreads();
        if (short_way)
            store_strips(((PaddedStrip*)shared)[warp], C, sums, top + y, left + x, M, N, alpha);
        else
            store_any(((Strip*)shared)[warp], C, sums, top + y, left + x, M, N, alpha, beta, bias);
    }
}
