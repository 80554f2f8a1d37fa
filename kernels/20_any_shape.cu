// 20  Any shape
// Idea:    all tiles of C, each as long as K, are laid end to end and cut into as many equal
//          lengths as blocks run at a time, so that every SM has the same work, whatever the
//          shape. Blocks that share a tile join their sums. Copies are as wide as the rows allow.
// Before:  15_mma_sync.cu gave each tile to one block, and needed rows of 16 bytes to be fast.
// Launch:  block (THREADS), grid (workers): either one for each tile, or all of them resident and
//          at most tiles * k_tiles; worker w begins at k tile w * per_worker + min(w, extra). With
//          the dynamic shared memory of SHARED_BYTES.
// Takes:   any M, N, K; float16, or with DTYPE=1 bfloat16, row-major; sums float32. C = alpha * A @
//          B + beta * C, rounded once. K is a multiple of COPY_A and N of COPY_B. `parts`: two
//          tiles of floats for each worker; `arrived`: a counter for each tile, 0 before and after.
//          From sm_80 on; launched early from sm_90 on.

#ifndef BM
#define BM 64                                    // rows of C that a block computes
#endif
#ifndef BN
#define BN 64                                    // columns
#endif
#ifndef BK
#define BK 64                                    // how far along K one stage goes
#endif
#ifndef WM
#define WM 32                                    // rows of C that a warp computes
#endif
#ifndef WN
#define WN 32                                    // columns
#endif
#ifndef WARPS_K
#define WARPS_K 1                                // warps that share the k of a stage
#endif
#ifndef STAGES
#define STAGES 4                                 // of the pipeline
#endif
#ifndef COPY_A
#define COPY_A 8                                 // elements of a row of A in a copy: 1, 2, 4 or 8
#endif
#ifndef COPY_B
#define COPY_B 8                                 // the same of B
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2                             // that must fit on one SM
#endif

#if __CUDA_ARCH__ < 900
#define EARLY_LAUNCH 0
#endif

#include "grid_counters.cuh"
#include "ldmatrix.cuh"
#include "mma_instruction.cuh"
#include "named_barrier.cuh"
#include "programmatic_launch.cuh"
#include "shared_address.cuh"
#include "cp_async.cuh"

constexpr int WARPS_M = BM / WM, WARPS_N = BN / WN;
constexpr int TILE_THREADS = 32 * WARPS_M * WARPS_N;             // that hold the sums of a tile
constexpr int THREADS = TILE_THREADS * WARPS_K;
constexpr int K_STEPS = BK / MMA_K;
constexpr int TILES_M = WM / MMA_M, TILES_N = WN / MMA_N;
static_assert(K_STEPS % WARPS_K == 0, "warps share the k of a stage evenly");
static_assert(STAGES >= 2, "one stage is read while another is filled");

// ---- tiles in shared memory ---------------------------------------------------------------------

// ROWS rows of ROW elements, in chunks of 16 bytes. ldmatrix reads a chunk of eight rows at once;
// the swizzle puts these into different banks.
template <int ROWS, int ROW>
struct Tile {
    static constexpr int CHUNKS = ROW / CHUNK;
    static constexpr int ROWS_OF_BANKS = CHUNKS < 8 ? 8 / CHUNKS : 1;    // that fill all banks once
    static constexpr int BYTES = ROWS * ROW * (int)sizeof(Element);

    // In bytes, of a chunk.
    static __device__ __forceinline__ int offset(int row, int chunk)
    {
        return 16 * (row * CHUNKS + (chunk ^ row / ROWS_OF_BANKS % (CHUNKS < 8 ? CHUNKS : 8)));
    }
};
typedef Tile<BM, BK> TileA;
typedef Tile<BK, BN> TileB;
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;

// A tile's elements in global memory: X points to the first one; rows and cols are inside.
struct Source {
    const Element* X;
    int stride, rows, cols;
};

// Eight bytes as cp.async.
__device__ __forceinline__ void cp_async_8(unsigned to, const void* from, int valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
                 :: "r"(to), "l"(from), "r"(valid) : "memory");
}

// This thread's copies of a tile, COPY elements each: by cp.async, zeros outside of the matrix.
template <int ROWS, int ROW, int COPY>
struct Copies {
    static constexpr int PER_ROW = ROW / COPY, STEP = THREADS / PER_ROW;
    static constexpr int COUNT = ROWS > STEP ? ROWS / STEP : 1;
    static_assert(THREADS % PER_ROW == 0 && (STEP > ROWS || ROWS % STEP == 0), "whole rows");

    static __device__ __forceinline__ void start(unsigned tile, const Source& source)
    {
        const int row = threadIdx.x / PER_ROW, col = threadIdx.x % PER_ROW * COPY;
        if (STEP > ROWS && row >= ROWS) return;
        const int rows = col < source.cols ? source.rows - row : 0;
        const Element* x = source.X + (size_t)row * source.stride + col;
        #pragma unroll
        for (int i = 0; i < COUNT; ++i, x += (size_t)STEP * source.stride) {
            const unsigned to = tile + 2 * (col % CHUNK) +
                                Tile<ROWS, ROW>::offset(row + i * STEP, col / CHUNK);
            const bool valid = i * STEP < rows;
            if (COPY == 8) cp_async<16>(to, valid ? x : source.X, valid ? 16 : 0);
            if (COPY == 4) cp_async_8(to, valid ? x : source.X, valid ? 8 : 0);
            if (COPY == 2) cp_async<4>(to, valid ? x : source.X, valid ? 4 : 0);
        }
    }

    __device__ __forceinline__ void store(unsigned tile) const {}
};

// 0 unless `valid`. Volatile: not before the wait for the previous launch, which may write it.
__device__ __forceinline__ unsigned load_element(const Element* from, bool valid)
{
    unsigned short element = 0;
    if (valid) asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(element) : "l"(from));
    return element;
}

// Rows that begin at odd elements: through registers, two neighbours at a time.
template <int ROWS, int ROW>
struct Copies<ROWS, ROW, 1> {
    static constexpr int PER_ROW = ROW / 2, STEP = THREADS / PER_ROW;
    static constexpr int COUNT = ROWS > STEP ? ROWS / STEP : 1;
    static_assert(THREADS % PER_ROW == 0 && (STEP > ROWS || ROWS % STEP == 0), "whole rows");
    unsigned pairs[COUNT];

    __device__ __forceinline__ void start(unsigned, const Source& source)
    {
        const int row = threadIdx.x / PER_ROW, col = threadIdx.x % PER_ROW * 2;
        if (STEP > ROWS && row >= ROWS) return;
        const int rows = col < source.cols ? source.rows - row : 0;
        const int rows_of_second = col + 1 < source.cols ? rows : 0;
        const Element* x = source.X + (size_t)row * source.stride + col;
        #pragma unroll
        for (int i = 0; i < COUNT; ++i, x += (size_t)STEP * source.stride) {
            const unsigned first = load_element(x, i * STEP < rows);
            const unsigned second = load_element(x + 1, i * STEP < rows_of_second);
            pairs[i] = first | second << 16;
        }
    }

    __device__ __forceinline__ void store(unsigned tile) const
    {
        const int row = threadIdx.x / PER_ROW, col = threadIdx.x % PER_ROW * 2;
        if (STEP > ROWS && row >= ROWS) return;
        #pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile("st.shared.b32 [%0], %1;"
                         :: "r"(tile + Tile<ROWS, ROW>::offset(row + i * STEP, col / CHUNK) +
                                2 * (col % CHUNK)), "r"(pairs[i]) : "memory");
    }
};

// ---- the product of a tile ----------------------------------------------------------------------

struct Fragments {
    unsigned a[TILES_M][4], b[TILES_N][2];
};

__device__ __forceinline__ void load_fragments(Fragments& fragments, unsigned stage, int warp_m,
                                               int warp_n, int k_step)
{
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i)
        ldmatrix(fragments.a[i], stage + TileA::offset(warp_m + MMA_M * i + lane % 16,
                                                       2 * k_step + lane / 16));
    #pragma unroll
    for (int j = 0; j < TILES_N; j += 2)
        ldmatrix_trans(fragments.b[j], fragments.b[j + 1], stage + TileA::BYTES +
                       TileB::offset(MMA_K * k_step + lane % 16, warp_n / CHUNK + j + lane / 16));
}

typedef Accumulator Accumulators[TILES_M][TILES_N][4];

__device__ __forceinline__ void multiply(Accumulators& accumulators, const Fragments& fragments)
{
    #pragma unroll
    for (int i = 0; i < TILES_M; ++i)
        #pragma unroll
        for (int j = 0; j < TILES_N; ++j)
            mma(accumulators[i][j], fragments.a[i], fragments.b[j]);
}

// What a stage is filled from: the k tile that is copied next.
struct NextTiles {
    Source a, b;

    __device__ __forceinline__ void advance()
    {
        a.X += BK;
        a.cols -= BK;
        b.X += (size_t)BK * b.stride;
        b.rows -= BK;
    }
};

// accumulators += A @ B over k_tiles stages.
__device__ __forceinline__ void mainloop(Accumulators& accumulators, unsigned stages,
                                         NextTiles next, int k_tiles)
{
    const int warp = threadIdx.x / 32, warp_k = warp / (WARPS_M * WARPS_N);
    const int warp_m = warp / WARPS_N % WARPS_M * WM, warp_n = warp % WARPS_N * WN;
    Copies<BM, BK, COPY_A> copies_a;
    Copies<BK, BN, COPY_B> copies_b;
    #pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < k_tiles) {
            copies_a.start(stages + stage * STAGE_BYTES, next.a);
            copies_b.start(stages + stage * STAGE_BYTES + TileA::BYTES, next.b);
            copies_a.store(stages + stage * STAGE_BYTES);
            copies_b.store(stages + stage * STAGE_BYTES + TileA::BYTES);
            next.advance();
        }
        cp_async_commit();
    }
    int read_stage = 0, write_stage = STAGES - 1;
    #pragma unroll 1
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();                         // this stage is full, the one before it is read
        const unsigned filled = stages + write_stage * STAGE_BYTES;
        const bool copying = k_tile + STAGES - 1 < k_tiles;
        if (copying) {
            copies_a.start(filled, next.a);
            copies_b.start(filled + TileA::BYTES, next.b);
            next.advance();
        }
        cp_async_commit();
        #pragma unroll
        for (int k_step = 0; k_step < K_STEPS / WARPS_K; ++k_step) {
            Fragments fragments;
            load_fragments(fragments, stages + read_stage * STAGE_BYTES, warp_m, warp_n,
                           k_step * WARPS_K + warp_k);
            multiply(accumulators, fragments);
        }
        if (copying) {
            copies_a.store(filled);
            copies_b.store(filled + TileA::BYTES);
        }
        read_stage = read_stage == STAGES - 1 ? 0 : read_stage + 1;
        write_stage = write_stage == STAGES - 1 ? 0 : write_stage + 1;
    }
    cp_async_wait<0>();
    __syncthreads();                             // the stages may be used otherwise
}

// ---- from accumulators to C ---------------------------------------------------------------------

typedef unsigned short Result;                   // an element of C: the bits of a number
constexpr int FLOAT4S = TILES_M * TILES_N;       // of a thread: the accumulators of an mma each
constexpr int TILE_FLOAT4S = FLOAT4S * TILE_THREADS;
constexpr int STAGES_BYTES = STAGES * STAGE_BYTES;
constexpr int SUMS_BYTES = 16 * ((WARPS_K - 1) * TILE_FLOAT4S > THREADS
                                     ? (WARPS_K - 1) * TILE_FLOAT4S : THREADS);
constexpr int WIDE = 256;                        // N from which whole warps store rows
constexpr bool HAS_REGISTERS = FLOAT4S < 32;     // for that, beside the accumulators
typedef Tile<BM, BN> TileC;
static_assert(TileC::BYTES <= STAGES_BYTES, "a tile of C fits where the stages were");
constexpr int SHARED_BYTES = SUMS_BYTES > STAGES_BYTES ? SUMS_BYTES : STAGES_BYTES;

__device__ __forceinline__ float number(Result c)
{
    if (DTYPE == 1) return __uint_as_float((unsigned)c << 16);
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(c));
    return x;
}

// Two neighbours, rounded, the first one in the low half.
__device__ __forceinline__ unsigned rounded(float first, float second)
{
    unsigned pair;
    if (DTYPE == 1) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

__device__ __forceinline__ float4 operator+(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Float4 number n of the tile in `parts`: the accumulators of mma n / TILE_THREADS of a thread.
struct Place {
    int row, col;                                // of the first two; the others are 8 rows below

    __device__ __forceinline__ Place(int n)
    {
        const int thread = n % TILE_THREADS, mma = n / TILE_THREADS;
        const int warp = thread / 32, lane = thread % 32;
        row = warp / WARPS_N * WM + mma / TILES_N * MMA_M + lane / 4;
        col = warp % WARPS_N * WN + mma % TILES_N * MMA_N + lane % 4 * 2;
    }
};

struct Output {
    Result* C;
    int M, N;
    float alpha, beta;
    int tile_m, tile_n;

    // Two neighbours of a row.
    __device__ __forceinline__ void store_pair(int row, int col, float first, float second) const
    {
        const int m = tile_m + row, n = tile_n + col;
        if (m >= M || n >= N) return;
        Result* to = C + (size_t)m * N + n;
        const bool both = n + 1 < N;
        first *= alpha;
        second *= alpha;
        if (beta != 0.0f) {
            first += beta * number(to[0]);
            if (both) second += beta * number(to[1]);
        }
        const unsigned pair = rounded(first, second);
        if (N % 2 == 0) {
            *(unsigned*)to = pair;
            return;
        }
        to[0] = (Result)pair;
        if (both) to[1] = (Result)(pair >> 16);
    }

    __device__ __forceinline__ void store(const Place& place, float4 sum) const
    {
        store_pair(place.row, place.col, sum.x, sum.y);
        store_pair(place.row + 8, place.col, sum.z, sum.w);
    }

    // A whole tile whose rows begin anywhere in a sector, through shared memory: a warp then stores
    // 64 neighbours of a row, as pairs that lie in one word each.
    __device__ __forceinline__ void store_rows(const Accumulators& accumulators,
                                               unsigned tile) const
    {
        if (WARPS_K > 1) named_barrier_sync<TILE_THREADS>(1);    // all have read the others' sums
        #pragma unroll
        for (int n = 0; n < 2 * FLOAT4S; ++n) {
            const Place place(threadIdx.x + n / 2 * TILE_THREADS);
            const int row = place.row + n % 2 * 8;
            const Accumulator* c = &accumulators[n / 2 / TILES_N][n / 2 % TILES_N][n % 2 * 2];
            asm volatile("st.shared.b32 [%0], %1;"
                         :: "r"(tile + TileC::offset(row, place.col / CHUNK) +
                                2 * (place.col % CHUNK)),
                            "r"(rounded(alpha * c[0], alpha * c[1])) : "memory");
        }
        named_barrier_sync<TILE_THREADS>(1);
        constexpr int WARPS = TILE_THREADS / 32, WORDS = (BN + 63) / 64;
        constexpr int ROWS = BM / WARPS < 4 ? BM / WARPS : 4;    // loads at once
        const int rows = min(BM, M - tile_m), cols = min(BN, N - tile_n), lane = threadIdx.x % 32;
        #pragma unroll 1
        for (int first = threadIdx.x / 32; first < rows; first += ROWS * WARPS) {
            unsigned pairs[ROWS][WORDS];
            #pragma unroll
            for (int i = 0; i < ROWS * WORDS; ++i) {
                const int row = first + i / WORDS * WARPS;
                const int col = i % WORDS * 64 + 2 * lane + odd_begin(row);
                pairs[i / WORDS][i % WORDS] = load_result(tile, row, min(col, BN - 1)) |
                                              load_result(tile, row, min(col + 1, BN - 1)) << 16;
            }
            #pragma unroll
            for (int i = 0; i < ROWS * WORDS; ++i) {
                const int row = first + i / WORDS * WARPS;
                const int odd = odd_begin(row), col = i % WORDS * 64 + 2 * lane + odd;
                if (row >= rows) continue;
                Result* to = C + (size_t)(tile_m + row) * N + tile_n;
                const unsigned pair = pairs[i / WORDS][i % WORDS];
                if (i % WORDS == 0 && odd && lane == 0) to[0] = load_result(tile, row, 0);
                if (col + 1 < cols) *(unsigned*)(to + col) = pair;
                else if (col < cols) to[col] = (Result)pair;
            }
        }
    }

    // 1 where a row's first element in this tile ends a word.
    __device__ __forceinline__ int odd_begin(int row) const
    {
        return (tile_m + row) & 1;              // N is odd, tile_n even
    }

    static __device__ __forceinline__ unsigned load_result(unsigned tile, int row, int col)
    {
        unsigned short c;
        asm volatile("ld.shared.u16 %0, [%1];"
                     : "=h"(c) : "r"(tile + TileC::offset(row, col / CHUNK) + 2 * (col % CHUNK)));
        return c;
    }

    // A whole tile, by the threads that hold it. Two lanes exchange pairs, so that each stores four
    // neighbours, and four lanes a sector.
    __device__ __forceinline__ void store_tile(const Accumulators& accumulators,
                                               unsigned shared) const
    {
        if (HAS_REGISTERS && N % 2 != 0 && N >= WIDE && beta == 0.0f) {
            store_rows(accumulators, shared);
            return;
        }
        if (N % 4 != 0 || beta != 0.0f) {
            #pragma unroll
            for (int n = 0; n < FLOAT4S; ++n) {
                const Accumulator (&c)[4] = accumulators[n / TILES_N][n % TILES_N];
                store(Place(threadIdx.x + n * TILE_THREADS), make_float4(c[0], c[1], c[2], c[3]));
            }
            return;
        }
        const bool odd = threadIdx.x % 2;
        #pragma unroll
        for (int i = 0; i < 2 * TILES_M; ++i)
            #pragma unroll
            for (int j = 0; j < TILES_N; j += 2) {
                const Place place(threadIdx.x + (i / 2 * TILES_N + j) * TILE_THREADS);
                const Accumulator *first = &accumulators[i / 2][j][i % 2 * 2],
                                  *second = &accumulators[i / 2][j + 1][i % 2 * 2];
                const unsigned first_pair = rounded(alpha * first[0], alpha * first[1]);
                const unsigned second_pair = rounded(alpha * second[0], alpha * second[1]);
                const unsigned other = __shfl_xor_sync(~0u, odd ? first_pair : second_pair, 1);
                const int m = tile_m + place.row + i % 2 * 8;
                const int n = tile_n + place.col + (odd ? MMA_N - 2 : 0);
                if (m < M && n < N)
                    *(uint2*)(C + (size_t)m * N + n) =
                        odd ? make_uint2(other, second_pair) : make_uint2(first_pair, other);
            }
    }
};

// Add the accumulators of the warps that share k to those of the first of them.
__device__ __forceinline__ void add_over_warps(Accumulators& accumulators, float4* sums)
{
    if (WARPS_K == 1) return;
    const int thread = threadIdx.x % TILE_THREADS, warp_k = threadIdx.x / TILE_THREADS;
    #pragma unroll
    for (int n = 0; n < FLOAT4S; ++n) {
        const Accumulator (&c)[4] = accumulators[n / TILES_N][n % TILES_N];
        if (warp_k > 0)
            sums[((warp_k - 1) * FLOAT4S + n) * TILE_THREADS + thread] =
                make_float4(c[0], c[1], c[2], c[3]);
    }
    __syncthreads();
    if (warp_k > 0) return;
    #pragma unroll
    for (int n = 0; n < FLOAT4S; ++n)
        #pragma unroll
        for (int warp = 0; warp < WARPS_K - 1; ++warp) {
            Accumulator (&c)[4] = accumulators[n / TILES_N][n % TILES_N];
            const float4 sum = sums[(warp * FLOAT4S + n) * TILE_THREADS + thread];
            c[0] += sum.x;
            c[1] += sum.y;
            c[2] += sum.z;
            c[3] += sum.w;
        }
}

// ---- shares of the work -------------------------------------------------------------------------

// The work is all k tiles of all tiles of C. `extra` workers have one more than the others.
struct Work {
    int k_tiles, per_worker, extra;

    __device__ __forceinline__ int first_of(int worker) const
    {
        return worker * per_worker + min(worker, extra);
    }

    __device__ __forceinline__ int worker_of(unsigned k_tile) const
    {
        const unsigned longer = extra * (per_worker + 1u);
        return k_tile < longer ? k_tile / (per_worker + 1u)
                               : extra + (k_tile - longer) / (unsigned)per_worker;
    }
};

// Wait for all workers that share this tile. Then add this worker's share of its float4s, in the
// order of the parts, and store it.
__device__ __forceinline__ void join(const Output& out, const float4* parts, unsigned* arrived,
                                     const Work& work, int tile, float4* sums)
{
    const int first_k_tile = tile * work.k_tiles, first = work.worker_of(first_k_tile);
    const int workers = work.worker_of(first_k_tile + work.k_tiles - 1) - first + 1;
    if (threadIdx.x == 0)
        while (counter_load(&arrived[tile]) < workers) {}
    __syncthreads();

    const int share = (TILE_FLOAT4S + workers - 1) / workers;
    const int begin = min((int)(blockIdx.x - first) * share, TILE_FLOAT4S);
    const int count = min(share, TILE_FLOAT4S - begin);
    // Groups of threads add some of the parts each, where there are more threads than float4s.
    const int groups = count == 0 ? 1 : max(1, min(THREADS / count, workers));
    // The first worker may have begun with another tile: then this is its second part.
    const float4* from = parts + (size_t)2 * first * TILE_FLOAT4S + begin;
    const int second = work.first_of(first) < first_k_tile ? TILE_FLOAT4S : 0;
    #pragma unroll 1
    for (int start = 0; start < count; start += THREADS) {
        const int group = groups == 1 ? 0 : threadIdx.x / count;
        const int n = groups == 1 ? start + threadIdx.x : threadIdx.x % count;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (n < count && group < groups) {
            #pragma unroll 8
            for (int w = group; w < workers; w += groups)
                sum = sum + __ldcg(from + (size_t)2 * w * TILE_FLOAT4S + (w == 0 ? second : 0) + n);
        }
        if (groups > 1) {
            sums[threadIdx.x] = sum;
            __syncthreads();
            if (group == 0)
                #pragma unroll 1
                for (int g = 1; g < groups; ++g) sum = sum + sums[g * count + n];
            __syncthreads();
        }
        if (n < count && group == 0) out.store(Place(begin + n), sum);
    }
    // The last one that leaves clears the counter.
    if (threadIdx.x == 0 && counter_increment(&arrived[tile]) == 2 * workers - 1)
        arrived[tile] = 0;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
any_shape(const Element* __restrict__ A, const Element* __restrict__ B, Result* __restrict__ C,
          int M, int N, int K, float alpha, float beta, int per_worker, int extra, float4* parts,
          unsigned* arrived)
{
    extern __shared__ __align__(128) char shared[];
    trigger_next_launch();
    const int tiles_m = (M + BM - 1) / BM;
    const Work work = {max(1, (K + BK - 1) / BK), per_worker, extra};
    const int begin = work.first_of(blockIdx.x), end = work.first_of(blockIdx.x + 1);
    wait_for_previous_launch();

    #pragma unroll 1
    for (int at = begin; at < end;) {
        const int tile = (unsigned)at / work.k_tiles, first = at - tile * work.k_tiles;
        const int count = min(work.k_tiles - first, end - at), k = first * BK;
        const int column = (unsigned)tile / tiles_m;
        const int tile_m = (tile - column * tiles_m) * BM, tile_n = column * BN;
        const NextTiles next = {{A + (size_t)tile_m * K + k, K, M - tile_m, K - k},
                                {B + (size_t)k * N + tile_n, N, K - k, N - tile_n}};
        Accumulators accumulators = {};
        mainloop(accumulators, shared_address(shared), next, count);
        add_over_warps(accumulators, (float4*)shared);
        if (threadIdx.x < TILE_THREADS) {
            if (count == work.k_tiles) {
                const Output out = {C, M, N, alpha, beta, tile_m, tile_n};
                out.store_tile(accumulators, shared_address(shared));
            } else {
                float4* part = parts + (size_t)(2 * blockIdx.x + (at > begin)) * TILE_FLOAT4S;
                #pragma unroll
                for (int n = 0; n < FLOAT4S; ++n) {
                    const Accumulator (&c)[4] = accumulators[n / TILES_N][n % TILES_N];
                    part[threadIdx.x + n * TILE_THREADS] = make_float4(c[0], c[1], c[2], c[3]);
                }
            }
        }
        __syncthreads();                         // the stages may be filled again
        if (count < work.k_tiles && threadIdx.x == 0) counter_increment(&arrived[tile]);
        at += count;
    }

    // Now the tiles that others have parts of: at most the first one and the last one.
    const int first_tile = (unsigned)begin / work.k_tiles;
    const int last_tile = (unsigned)(end - 1) / work.k_tiles;
    #pragma unroll 1
    for (int tile = first_tile; tile <= last_tile; tile += max(1, last_tile - first_tile)) {
        const int first_k_tile = tile * work.k_tiles;
        if (first_k_tile >= begin && first_k_tile + work.k_tiles <= end) continue;
        const int column = tile / tiles_m;
        const Output out = {C, M, N, alpha, beta, (tile - column * tiles_m) * BM, column * BN};
        join(out, parts, arrived, work, tile, (float4*)shared);
    }
}
