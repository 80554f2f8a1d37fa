// The product of a tile over a range of K, for 12 and 13: 10's kernel with K cut. The pipeline is
// 10's; each section below says what else is as in 10, and may be skipped, and what is new.
// tile_layouts.cuh has what differs where A or B is stored transposed (OP_A, OP_B), and for tiles
// so narrow that A stays in rows in shared memory (A_IN_ROWS). From sm_80 on.
#pragma once

#include "float4.cuh"
#include "tile_order.cuh"
#include "tile_sizes.cuh"

#define L2_PREFETCH ".L2::128B"  // of a row of A, the next stage's floats come with this one's
#include "pipeline_cp_async.cuh"

#define A_IN_ROWS (!OP_A && (BN < 32 || (BN <= 64 && TM * TN > 64)))

constexpr int THREADS = (BM / TM) * (BN / TN);
constexpr int RESIDENT_THREADS = TM * TN > 64 ? 256 : TM * TN > 32 ? 512 : 768;  // by registers
constexpr int MIN_BLOCKS = RESIDENT_THREADS > THREADS ? RESIDENT_THREADS / THREADS : 1;
// Steps of k that are unrolled, an even number: more would not fit in the instruction cache.
constexpr int CHUNK = TM * TN * BK <= 1024 ? BK : 1024 / (TM * TN);
static_assert(CHUNK % 2 == 0 && BK % CHUNK == 0, "fragments of two k take turns in whole chunks");
// A warp's lanes: eight side by side where the tile is wide enough.
constexpr int LANES_N = BN / TN < 8 ? BN / TN : 8, LANES_M = 32 / LANES_N;
constexpr int WM = LANES_M * TM, WN = LANES_N * TN;      // rows and columns of C of a warp
static_assert(BM % WM == 0 && BN % WN == 0, "whole warps compute the tile");

// The operands: 10's Inputs, without a tile. lda, ldb: elements from one stored row to the next.
struct Matrices {
    const float *A, *B;
    int M, N, K, lda, ldb;
};

// ---- copies into shared memory ------------------------------------------------------------------
// As in 10: A is transposed by copies of one element, B is copied as it is stored, and zeros are
// written for what is outside. New: rows are any distance apart, and where they do not begin at
// multiples of 16 bytes B comes by single elements too.

// One copy of WIDTH elements, of which the first `count` are in the matrix, or all if IN_BOUNDS;
// zeros for the others. `count` may be negative, or more than WIDTH.
template <bool IN_BOUNDS, int WIDTH>
__device__ __forceinline__ void copy(unsigned to, const float* from, int count)
{
    cp_async<4 * WIDTH>(to, from, IN_BOUNDS ? 4 * WIDTH : 4 * max(0, min(count, WIDTH)));
}

// One thread's copies of an operand whose neighbours in memory are neighbours along K, such as A;
// the block's tile has SIZE of its rows, and is transposed on the way, to [k][row], as in 10.
template <int SIZE>
struct CopyTransposed {
    static constexpr int ROWS = BK, PITCH = SIZE + 4;    // of the tile in shared memory
    static constexpr int ROWS_AT_ONCE = THREADS / 8;     // that the block copies at a time
    static constexpr bool BY_FOUR = false;               // whether a copy can be of 16 bytes
    static_assert(SIZE % ROWS_AT_ONCE == 0 && BK % 8 == 0, "threads copy equal shares of a tile");

    const float* from;                           // this thread's first element of the next stage
    int ld;                                      // elements from one stored row to the next
    int side_left, k_left;                       // rows of A, and k, from there to the ends

    // X: the operand where the tile begins. side, k: how many rows or columns, and how many k, are
    // left from there. Copies are of one element here, whatever WIDTH is.
    template <int WIDTH>
    __device__ __forceinline__ void begin(const float* X, int ld_x, int side, int k)
    {
        const int first_row = threadIdx.x / 8, first_k = threadIdx.x % 8;
        from = X + (size_t)first_row * ld_x + first_k;
        ld = ld_x;
        side_left = side - first_row;
        k_left = k - first_k;
    }

    // Start the copies of a stage, into the tile at this address, and go on to the next stage.
    template <bool IN_BOUNDS, int WIDTH>
    __device__ __forceinline__ void copy_tile(unsigned tile)
    {
        const int first_row = threadIdx.x / 8, first_k = threadIdx.x % 8;
        #pragma unroll
        for (int row = 0; row < SIZE; row += ROWS_AT_ONCE)
            #pragma unroll
            for (int k = 0; k < BK; k += 8) {
                const int to = first_k * PITCH + first_row + k * PITCH + row;
                const int count = row < side_left ? k_left - k : 0;
                copy<IN_BOUNDS, 1>(tile + 4 * to, from + (size_t)row * ld + k, count);
            }
        from += BK;
        k_left -= BK;
    }
};

// The same for an operand whose neighbours in memory are neighbouring columns of the tile, such as
// B. The tile stays as it is stored: [k][column]. WIDTH: 4, or 1 where not all rows begin at
// multiples of 16 bytes.
template <int SIZE>
struct CopyAsStored {
    static constexpr int ROWS = BK, PITCH = SIZE;
    static constexpr bool BY_FOUR = true;

    const float* from;
    int ld, side_left, k_left;

    // Threads side by side along a row: one for each copy, but no more than the block has.
    template <int WIDTH>
    static constexpr int ROW_THREADS = SIZE / WIDTH < THREADS ? SIZE / WIDTH : THREADS;

    template <int WIDTH>
    static __device__ __forceinline__ int first_k() { return threadIdx.x / ROW_THREADS<WIDTH>; }

    template <int WIDTH>
    static __device__ __forceinline__ int first_col()
    {
        return threadIdx.x % ROW_THREADS<WIDTH> * WIDTH;
    }

    template <int WIDTH>
    __device__ __forceinline__ void begin(const float* X, int ld_x, int side, int k)
    {
        from = X + (size_t)first_k<WIDTH>() * ld_x + first_col<WIDTH>();
        ld = ld_x;
        side_left = side - first_col<WIDTH>();
        k_left = k - first_k<WIDTH>();
    }

    template <bool IN_BOUNDS, int WIDTH>
    __device__ __forceinline__ void copy_tile(unsigned tile)
    {
        constexpr int ROW_STEP = ROW_THREADS<WIDTH> * WIDTH;
        constexpr int ROWS_AT_ONCE = THREADS / ROW_THREADS<WIDTH>;
        static_assert(BK % ROWS_AT_ONCE == 0, "threads copy equal shares of a tile");
        #pragma unroll
        for (int k = 0; k < BK; k += ROWS_AT_ONCE)
            #pragma unroll
            for (int col = 0; col < SIZE; col += ROW_STEP) {
                const int to = first_k<WIDTH>() * PITCH + first_col<WIDTH>() + k * PITCH + col;
                const int count = k < k_left ? side_left - col : 0;
                copy<IN_BOUNDS, WIDTH>(tile + 4 * to, from + (size_t)k * ld + col, count);
            }
        from += (size_t)BK * ld;
        k_left -= BK;
    }
};

#if OP_A || OP_B || A_IN_ROWS
#include "tile_layouts.cuh"
#else
typedef CopyTransposed<BM> CopyA;
typedef CopyAsStored<BN> CopyB;
#endif

struct Stage {
    float a[CopyA::ROWS][CopyA::PITCH];
    float b[CopyB::ROWS][CopyB::PITCH];
};
constexpr int STAGE_FLOATS = sizeof(Stage) / 4;

// One thread's copies of both operands, from one stage to the next.
struct Copies {
    CopyA a;
    CopyB b;
    bool in_bounds, aligned;                     // the tile is inside C; rows begin at 16 B

    // For the tile of C at (tile_m, tile_n), from k on. Elements from k = `end` on are taken as
    // zero.
    __device__ __forceinline__ Copies(const Matrices& x, bool aligned, int tile_m, int tile_n,
                                      int k, int end)
        : in_bounds(tile_m + BM <= x.M && tile_n + BN <= x.N), aligned(aligned)
    {
        if (aligned) begin<4>(x, tile_m, tile_n, k, end);
        else begin<1>(x, tile_m, tile_n, k, end);
    }

    template <int WIDTH>
    __device__ __forceinline__ void begin(const Matrices& x, int tile_m, int tile_n, int k, int end)
    {
        a.begin<WIDTH>(x.A + (OP_A ? (size_t)k * x.lda + tile_m : (size_t)tile_m * x.lda + k),
                       x.lda, x.M - tile_m, end - k);
        b.begin<WIDTH>(x.B + (OP_B ? (size_t)tile_n * x.ldb + k : (size_t)k * x.ldb + tile_n),
                       x.ldb, x.N - tile_n, end - k);
    }

    // Start the copies of the next stage, to this address. `whole`: it ends at `end` or before.
    __device__ __forceinline__ void copy_stage(unsigned address, bool whole)
    {
        if (aligned) {
            if (in_bounds && whole) start_copies<true, 4>(address);
            else start_copies<false, 4>(address);
        } else {
            if (in_bounds && whole) start_copies<true, 1>(address);
            else start_copies<false, 1>(address);
        }
    }

    template <bool IN_BOUNDS, int WIDTH>
    __device__ __forceinline__ void start_copies(unsigned address)
    {
        a.copy_tile<IN_BOUNDS, WIDTH>(address);
        b.copy_tile<IN_BOUNDS, WIDTH>(address + (unsigned)sizeof(Stage::a));
    }
};

// Whether all rows that are copied by four elements begin at multiples of 16 bytes.
__device__ __forceinline__ bool is_aligned(const Matrices& x)
{
    return (!CopyA::BY_FOUR || (x.lda % 4 == 0 && (size_t)x.A % 16 == 0)) &&
           (!CopyB::BY_FOUR || (x.ldb % 4 == 0 && (size_t)x.B % 16 == 0));
}

// The mbarriers' addresses go through an empty asm, which hides where they come from; otherwise
// they would be computed anew at each wait.
__device__ __forceinline__ Pipeline make_pipeline(unsigned long long (&barriers)[2 * STAGES])
{
    Pipeline pipeline(barriers, THREADS);
    asm volatile("" : "+r"(pipeline.full), "+r"(pipeline.empty));
    return pipeline;
}

// ---- accumulators and fragments -----------------------------------------------------------------
// As in 10: a thread's rows and columns come in groups of four, and the fragments of the next k are
// loaded while those of this one are multiplied. New: it is the rows that snake, and a StageView
// says where in a stage the fragments begin.

// A thread's first column of the block's tile: 10's thread_n.
__device__ __forceinline__ int first_col_of_thread(int thread)
{
    return thread / 32 % (BN / WN) * WN + thread % LANES_N * 4;
}

// From there to its q-th group of four columns. Neighbouring lanes have neighbouring groups.
__device__ __forceinline__ constexpr int col_offset(int q) { return q * LANES_N * 4; }

#if A_IN_ROWS
#include "tile_rows.cuh"
#else
// The same for its rows: 10's thread_m, and from there to its i-th row.
__device__ __forceinline__ int first_row_of_thread(int thread)
{
    return thread / 32 / (BN / WN) * WM + thread % 32 / LANES_N * 4;
}

__device__ __forceinline__ constexpr int row_offset(int i) { return i / 4 * LANES_M * 4 + i % 4; }

// A thread's column of A and row of B, for this k and for the next.
struct Fragments {
    float a[2][TM], b[2][TN];
};

// Where in a stage a thread's fragments begin.
struct StageView {
    const float *a, *b;

    __device__ __forceinline__ StageView at(int offset) const { return {a + offset, b + offset}; }

    // On to the next chunk of the same stage.
    __device__ __forceinline__ void advance()
    {
        a += CHUNK * CopyA::PITCH;
        b += CHUNK * CopyB::PITCH;
    }
};

__device__ __forceinline__ StageView view_of_thread(const Stage* stages)
{
    const float* first = &stages->a[0][0];
    return {first + first_row_of_thread(threadIdx.x),
            first + BK * CopyA::PITCH + first_col_of_thread(threadIdx.x)};
}

// Load the column of A and the row of B of this k into fragments.a[n] and fragments.b[n].
__device__ __forceinline__ void load_fragments(Fragments& fragments, int n, const StageView& view,
                                               int k)
{
    #pragma unroll
    for (int q = 0; q < TN / 4; ++q)
        *(float4*)&fragments.b[n][4 * q] =
            *(const float4*)&view.b[k * CopyB::PITCH + col_offset(q)];
    #pragma unroll
    for (int p = 0; p < TM / 4; ++p)
        *(float4*)&fragments.a[n][4 * p] =
            *(const float4*)&view.a[k * CopyA::PITCH + row_offset(4 * p)];
}

// Multiply the fragments of one k. Before, start to load those of the next: of next_k in `next`,
// which may be another stage. Rows snake, as 10's columns do, the even ones to the left and the odd
// ones to the right, so that every FMA shares an operand with the one before.
template <bool LOAD_NEXT>
__device__ __forceinline__ void multiply(float (&accumulators)[TM][TN], Fragments& fragments, int k,
                                         const StageView& next, int next_k)
{
    if (LOAD_NEXT) load_fragments(fragments, (k + 1) % 2, next, next_k);
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int n = 0; n < TN; ++n) {
            const int j = i % 2 ? n : TN - 1 - n;
            accumulators[i][j] += fragments.a[k % 2][i] * fragments.b[k % 2][j];
        }
}
#endif

// ---- the mainloop -------------------------------------------------------------------------------
// As in 10: chunks of unrolled k, stage after stage. New: what follows a stage is left to a Stream
// of the rung, and the loop turns between two k.

// Multiply the stages of a tile, of which the first one, number `stage`, is complete. The Stream's
// next_stage() releases the stage that was read, starts copies into a free one, and waits for the
// tile's next one. It returns how many floats after stage 0 that begins; a negative number after
// the last one.
template <typename Stream>
__device__ __forceinline__ void mainloop(float (&accumulators)[TM][TN], const StageView& first,
                                         int stage, Stream& stream)
{
    StageView view = first.at(stage * STAGE_FLOATS);
    Fragments fragments;
    load_fragments(fragments, 0, view, 0);

    int chunks = BK / CHUNK;                     // of this stage, still to multiply
    #pragma unroll 1
    while (true) {
        #pragma unroll
        for (int k = 0; k < CHUNK - 1; ++k)
            multiply<true>(accumulators, fragments, k, view, k + 1);
        view.advance();
        if (--chunks == 0) {
            // All of this stage is in registers: its last k is multiplied below, while the first k
            // of the next stage is loaded.
            const int offset = stream.next_stage();
            if (offset < 0) break;
            view = first.at(offset);
            chunks = BK / CHUNK;
        }
        multiply<true>(accumulators, fragments, CHUNK - 1, view, 0);
    }
    multiply<false>(accumulators, fragments, CHUNK - 1, view, 0);
}

// ---- the epilogue -------------------------------------------------------------------------------

// float4.cuh's store_float4, for rows of C that are `ldc` elements apart.
__device__ __forceinline__ void store_four(float* C, int ldc, int M, int N, int row, int col,
                                           const float* sums, float alpha, float beta)
{
    float* to = C + (size_t)row * ldc + col;
    if (row >= M) return;
    if (col + 4 <= N && ldc % 4 == 0 && (size_t)C % 16 == 0) {
        store_aligned(to, sums, alpha, beta);
        return;
    }
    #pragma unroll
    for (int v = 0; v < 4; ++v)
        if (col + v < N)
            to[v] = beta == 0.0f ? alpha * sums[v] : alpha * sums[v] + beta * to[v];
}

// Store all accumulators, for the block's tile at (tile_m, tile_n).
__device__ __forceinline__ void epilogue(float* C, int ldc, int M, int N, int tile_m, int tile_n,
                                         const float (&accumulators)[TM][TN], float alpha,
                                         float beta)
{
    const int row = tile_m + first_row_of_thread(threadIdx.x);
    const int col = tile_n + first_col_of_thread(threadIdx.x);
    const bool in_bounds = tile_m + BM <= M && tile_n + BN <= N && ldc % 4 == 0 &&
                           (size_t)C % 16 == 0;
    if (in_bounds && beta == 0.0f) {             // the common case: no checks for each float4
        float* to = C + (size_t)row * ldc + col;
        #pragma unroll
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int q = 0; q < TN / 4; ++q) {
                const float* sums = &accumulators[i][4 * q];
                *(float4*)(to + (size_t)row_offset(i) * ldc + col_offset(q)) =
                    make_float4(alpha * sums[0], alpha * sums[1], alpha * sums[2], alpha * sums[3]);
            }
        return;
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q)
            store_four(C, ldc, M, N, row + row_offset(i), col + col_offset(q),
                       &accumulators[i][4 * q], alpha, beta);
}
