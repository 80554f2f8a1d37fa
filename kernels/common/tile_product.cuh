// A block computes a BM×BN tile of op(A) @ op(B) over a range of K, in registers, TM×TN sums a
// thread. Any M, N, K and leading dimensions; from sm_80 on.
// OP_A, OP_B: 0 where the matrix is stored as it is used, 1 where it is stored transposed. If K goes
// down the stored rows (A transposed, B as it is), a tile is in shared memory as it is stored, and a
// thread reads four neighbours for one k; copies are of 16 bytes, unless rows begin off 16 bytes. If
// K goes along the stored rows, a tile is transposed on the way: a copy moves one element. With
// LINES 1 A as it is is not transposed: copies of 16 bytes, a thread reads four k of one row, and a
// swizzle keeps the lanes' rows in different banks.
#pragma once

#include "pipeline.cuh"
#include "tile_sizes.cuh"

// 1: A as it is stays so in shared memory. There are fewer copies then, and more registers are taken.
#define LINES (BN < 32 || (BN <= 64 && TM * TN > 64))
// Steps along K that are written out in a row: more would not stay in the instruction cache.
#define CHUNK (TM * TN * BK <= 1024 ? BK : 1024 / (TM * TN))
#define THREADS ((BM / TM) * (BN / TN))
#define RESIDENT_THREADS (TM * TN > 64 ? 256 : TM * TN > 32 ? 512 : 768)   // registers suffice
#define MIN_BLOCKS (RESIDENT_THREADS > THREADS ? RESIDENT_THREADS / THREADS : 1)

// A warp's lanes: eight across where the tile is wide enough. Each thread's sums come in groups of
// four columns, and of four rows or, where A lies along K, single rows; neighbouring groups belong to
// neighbouring lanes.
constexpr int LANES_ACROSS = BN / TN < 8 ? BN / TN : 8, LANES_DOWN = 32 / LANES_ACROSS;
constexpr int WARP_ROWS = LANES_DOWN * TM, WARP_COLUMNS = LANES_ACROSS * TN;
constexpr bool A_ALONG_K = OP_A == 0, B_ALONG_K = OP_B == 1, A_IN_LINES = A_ALONG_K && LINES;

// From one row of a tile in shared memory to the next. A's go along K, or along M; B's along N, with
// four more where elements come transposed, against bank conflicts.
constexpr int A_ROW = A_IN_LINES ? BK : BM + (A_ALONG_K ? 4 : 0), B_ROW = BN + (B_ALONG_K ? 4 : 0);
constexpr int A_FLOATS = A_IN_LINES ? BM * BK : BK * A_ROW;
constexpr int TILES_FLOATS = A_FLOATS + BK * B_ROW;             // of one stage
constexpr int SHARED_BYTES = 4 * STAGES * TILES_FLOATS;         // dynamic, of a block

// The two matrices of a product. lda, ldb: elements from one stored row to the next.
struct Factors {
    const float *A, *B;
    int M, N, K, lda, ldb;
};

// ---- which sums are whose ------------------------------------------------------------------------

// Of a thread of the block: the row and the column of its first sum in the block's tile.
__device__ __forceinline__ int first_row(int thread)
{
    return thread / 32 / (BN / WARP_COLUMNS) * WARP_ROWS +
           thread % 32 / LANES_ACROSS * (A_IN_LINES ? 1 : 4);
}

__device__ __forceinline__ int first_column(int thread)
{
    return thread / 32 % (BN / WARP_COLUMNS) * WARP_COLUMNS + thread % LANES_ACROSS * 4;
}

// From there to its i-th row, and to its q-th group of four columns.
__device__ __forceinline__ constexpr int row_step(int i)
{
    return A_IN_LINES ? i * LANES_DOWN : i / 4 * LANES_DOWN * 4 + i % 4;
}

__device__ __forceinline__ constexpr int column_step(int q) { return q * LANES_ACROSS * 4; }

// The ring's mbarriers at addresses that the assembler cannot see through: it would compute them anew
// with each wait.
__device__ __forceinline__ Ring<STAGES> make_ring(unsigned long long (&barriers)[2 * STAGES])
{
    Ring<STAGES> ring(barriers, THREADS);
    asm volatile("" : "+r"(ring.full), "+r"(ring.empty));
    return ring;
}

// ---- copies --------------------------------------------------------------------------------------

// Start to copy `count` of WIDTH elements; zeros take the place of the others. INSIDE: all of them.
template <bool INSIDE, int WIDTH>
__device__ __forceinline__ void copy_or_zero(unsigned to, const float* from, int count)
{
    const int bytes = INSIDE ? 4 * WIDTH : 4 * max(0, min(count, WIDTH));
    if (WIDTH == 4)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                     :: "r"(to), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4, %2;"
                     :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

// Where an element of A's tile lies that goes along K. Of a row, units of four k trade places, so that
// neighbouring rows have the same k in different banks.
__device__ __forceinline__ constexpr int swizzle(int row) { return row * (BK / 4) / 8 % (BK / 4); }

__device__ __forceinline__ constexpr int in_line(int row, int k)
{
    return row * BK + ((k / 4) ^ swizzle(row)) * 4 + k % 4;
}

enum Kind { AS_STORED, IN_LINES, TRANSPOSED };   // how a tile lies in shared memory; see above

// One operand of a block's tile, SIZE long and BK deep, as one thread copies it. `next`: its first
// element of the next stage; `ld`: from row to row; `sides`, `ks`: how far it is to the ends.
template <int SIZE, Kind KIND, int ROW>
struct Source {
    const float* next;
    int ld, sides, ks;

    // The threads take WIDTH elements of a row at a time: ALONG of them a row. TRANSPOSED: 8
    // neighbours of 4 rows by a warp, which are whole sectors and, with the padding, different banks.
    template <int WIDTH>
    struct Share {
        static constexpr bool DOWN_K = KIND == AS_STORED;      // rows go along the side, and down K
        static constexpr int ALONG = KIND == TRANSPOSED ? 8
            : at_most((DOWN_K ? SIZE : BK) / WIDTH, THREADS);
        static constexpr int ROWS_AT_ONCE =
            at_most(power_of_two(THREADS / ALONG), DOWN_K ? BK : SIZE & -SIZE);
        static constexpr int STEP_ALONG = ALONG * WIDTH;
        static constexpr int LENGTH = DOWN_K ? SIZE : BK, ROWS_IN_ALL = DOWN_K ? BK : SIZE;
        static constexpr bool ALL_WORK = ALONG * ROWS_AT_ONCE == THREADS;
        static_assert(LENGTH % STEP_ALONG == 0 && ROWS_IN_ALL % ROWS_AT_ONCE == 0,
                      "threads bring even shares of a tile");
        static __device__ __forceinline__ int row() { return threadIdx.x / ALONG; }
        static __device__ __forceinline__ int along() { return threadIdx.x % ALONG * WIDTH; }
    };

    // `X`: the operand where the tile begins, which has `many` rows or columns and `deep` k from there.
    template <int WIDTH>
    __device__ __forceinline__ void set(const float* X, int row_length, int many, int deep)
    {
        using Mine = Share<WIDTH>;
        next = X + (size_t)Mine::row() * row_length + Mine::along();
        ld = row_length;
        sides = many - (Mine::DOWN_K ? Mine::along() : Mine::row());
        ks = deep - (Mine::DOWN_K ? Mine::row() : Mine::along());
    }

    // Start my copies of a stage, into the tile at this address, and go on to the next one.
    template <bool INSIDE, int WIDTH>
    __device__ __forceinline__ void fetch(unsigned tile)
    {
        using Mine = Share<WIDTH>;
        if (Mine::ALL_WORK || threadIdx.x < Mine::ALONG * Mine::ROWS_AT_ONCE)
            #pragma unroll
            for (int r = 0; r < Mine::ROWS_IN_ALL; r += Mine::ROWS_AT_ONCE)
                #pragma unroll
                for (int x = 0; x < Mine::LENGTH; x += Mine::STEP_ALONG) {
                    const int row = Mine::row(), along = Mine::along();
                    const int place = KIND == AS_STORED ? row * ROW + along + r * ROW + x
                        : KIND == TRANSPOSED ? along * ROW + row + x * ROW + r
                        : Mine::ROWS_AT_ONCE % 8 == 0 && x == 0 ? in_line(row, along) + r * BK
                        : in_line(row + r, along + x);
                    const int side = Mine::DOWN_K ? x : r, k = Mine::DOWN_K ? r : x;
                    const int count = Mine::DOWN_K ? (k < ks ? sides - side : 0)
                                                   : (side < sides ? ks - k : 0);
                    copy_or_zero<INSIDE, WIDTH>(tile + 4 * place, next + (size_t)r * ld + x, count);
                }
        next += Mine::DOWN_K ? (size_t)BK * ld : BK;
        ks -= BK;
    }
};

// Whether all rows that are moved by four elements begin at 16 bytes.
__device__ __forceinline__ bool moves_by_four(const Factors& f)
{
    return ((A_ALONG_K && !A_IN_LINES) || (f.lda % 4 == 0 && (size_t)f.A % 16 == 0)) &&
           (B_ALONG_K || (f.ldb % 4 == 0 && (size_t)f.B % 16 == 0));
}

// Where a block's copies come from: both operands, from k on. What is from `end` on counts as zero.
struct Sources {
    Source<BM, A_IN_LINES ? IN_LINES : A_ALONG_K ? TRANSPOSED : AS_STORED, A_ROW> a;
    Source<BN, B_ALONG_K ? TRANSPOSED : AS_STORED, B_ROW> b;
    bool whole, by_four;                         // the tile is inside C; rows begin at 16 bytes

    __device__ __forceinline__ Sources(const Factors& f, bool by_four, int top, int left, int k,
                                       int end)
        : whole(top + BM <= f.M && left + BN <= f.N), by_four(by_four)
    {
        if (by_four) set<4>(f, top, left, k, end);
        else set<1>(f, top, left, k, end);
    }

    template <int WIDTH>
    __device__ __forceinline__ void set(const Factors& f, int top, int left, int k, int end)
    {
        a.template set<A_ALONG_K && !A_IN_LINES ? 1 : WIDTH>(
            f.A + (A_ALONG_K ? (size_t)top * f.lda + k : (size_t)k * f.lda + top), f.lda,
            f.M - top, end - k);
        b.template set<B_ALONG_K ? 1 : WIDTH>(
            f.B + (B_ALONG_K ? (size_t)left * f.ldb + k : (size_t)k * f.ldb + left), f.ldb,
            f.N - left, end - k);
    }

    template <bool INSIDE, int WIDTH>
    __device__ __forceinline__ void fetch(unsigned tiles)
    {
        a.template fetch<INSIDE, A_ALONG_K && !A_IN_LINES ? 1 : WIDTH>(tiles);
        b.template fetch<INSIDE, B_ALONG_K ? 1 : WIDTH>(tiles + 4 * A_FLOATS);
    }

    // Start my copies of the next stage into the tiles at this address. `all`: it is BK deep.
    __device__ __forceinline__ void fetch(unsigned tiles, bool all)
    {
        if (by_four)
            if (whole && all) fetch<true, 4>(tiles);
            else fetch<false, 4>(tiles);
        else
            if (whole && all) fetch<true, 1>(tiles);
            else fetch<false, 1>(tiles);
    }
};

// ---- the product ---------------------------------------------------------------------------------

// Of A's tile my column, and of B's my row: for one k and for the next. Where A lies along K, for
// four k: a row's next four come as soon as these are used.
struct Fragments {
    float a[A_IN_LINES ? 4 : 2][TM], b[2][TN];
};

// My rows and columns of the tiles of one stage.
struct Stage {
    const float *a, *b;
    int swizzled;                                // what trades places in my rows
    int units;                                   // of four k, that lie behind me in A's lines

    // On to the next steps along K of the same stage.
    __device__ __forceinline__ void advance()
    {
        if (A_IN_LINES) units += CHUNK / 4;
        else a += CHUNK * A_ROW;
        b += CHUNK * B_ROW;
    }

    __device__ __forceinline__ void read_b(float (&to)[TN], int k) const
    {
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q)
            *(float4*)&to[4 * q] = *(const float4*)&b[k * B_ROW + column_step(q)];
    }

    __device__ __forceinline__ void read_column_of_a(float (&to)[TM], int k) const
    {
        #pragma unroll
        for (int p = 0; p < TM / 4; ++p)
            *(float4*)&to[4 * p] = *(const float4*)&a[k * A_ROW + row_step(4 * p)];
    }

    __device__ __forceinline__ void read_row_of_a(float (&to)[A_IN_LINES ? 4 : 2][TM], int i,
                                                  int k) const
    {
        const int unit = (k / 4) ^ swizzle(row_step(i)) ^ (swizzled ^ units);
        const float4 four = *(const float4*)&a[row_step(i) * BK + 4 * unit];
        to[0][i] = four.x;
        to[1][i] = four.y;
        to[A_IN_LINES ? 2 : 0][i] = four.z;
        to[A_IN_LINES ? 3 : 1][i] = four.w;
    }
};

// Multiply for one k; meanwhile read what the next one needs, unless it is the LAST of all. `next`:
// the stage in which the next k lies, as its `next_k`. Up the even rows and down the odd ones, every
// FMA shares an operand with the one before.
template <bool LAST>
__device__ __forceinline__ void multiply(float (&sums)[TM][TN], Fragments& mine, int k,
                                         const Stage& next, int next_k)
{
    if (!LAST) next.read_b(mine.b[(k + 1) % 2], next_k);
    if (!LAST && !A_IN_LINES) next.read_column_of_a(mine.a[(k + 1) % 2], next_k);
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int n = 0; n < TN; ++n) {
            const int j = i % 2 ? n : TN - 1 - n;
            sums[i][j] += mine.a[k % (A_IN_LINES ? 4 : 2)][i] * mine.b[k % 2][j];
        }
        if (!LAST && A_IN_LINES && k % 4 == 3) next.read_row_of_a(mine.a, i, next_k);
    }
}

// My rows and columns in the tiles at `tiles`, of the ring's first place.
__device__ __forceinline__ Stage my_stage(const float* tiles)
{
    const int y = first_row(threadIdx.x);
    return {tiles + (A_IN_LINES ? y * BK : y), tiles + A_FLOATS + first_column(threadIdx.x),
            swizzle(y), 0};
}

// Multiply stage after stage, from `here` on, which is there. next(): I have read this stage; go on
// to the next one, once it is there, and return it as an offset from the ring's first place; or -1,
// where this was the last one.
template <typename Next>
__device__ __forceinline__ void multiply_stages(float (&sums)[TM][TN], const Stage& first,
                                                int offset, const Next& next)
{
    const auto stage = [&](int offset) -> Stage {
        return {first.a + offset, first.b + offset, first.swizzled, 0};
    };
    Stage here = stage(offset);
    Fragments mine;
    here.read_b(mine.b[0], 0);
    if (!A_IN_LINES) here.read_column_of_a(mine.a[0], 0);
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        if (A_IN_LINES) here.read_row_of_a(mine.a, i, 0);

    int chunks = BK / CHUNK;                     // of this stage that are left
    #pragma unroll 1
    while (true) {
        #pragma unroll
        for (int k = 0; k < CHUNK - 1; ++k) multiply<false>(sums, mine, k, here, k + 1);
        here.advance();
        if (--chunks == 0) {
            const int then = next();
            if (then < 0) break;
            here = stage(then);
            chunks = BK / CHUNK;
        }
        multiply<false>(sums, mine, CHUNK - 1, here, 0);
    }
    multiply<true>(sums, mine, CHUNK - 1, here, 0);
}

// Add to my sums those of the tile of op(A) @ op(B) at (top, left), over K from `first` up to `end`,
// which is at most K. By all threads of the block; `shared` has SHARED_BYTES, 16-byte aligned, for
// the places of the ring, and may be used otherwise until the next call.
__device__ __forceinline__ void multiply_tile(float (&sums)[TM][TN], float* shared,
                                              Ring<STAGES>& ring, const Factors& f, int top,
                                              int left, int first, int end)
{
    if (first >= end) return;
    const int lane = threadIdx.x % 32;
    Sources from(f, moves_by_four(f), top, left, first, end);
    const unsigned tiles = shared_address(shared);
    int ahead = first;                           // where the stage begins that is fetched next
    const auto fill = [&](int place) {
        from.fetch(tiles + 4 * TILES_FLOATS * place, ahead + BK <= end);
        ring.commit(place);
        ahead += BK;
    };
    #pragma unroll 1
    for (int n = 1, place = ring.place; n < STAGES && ahead < end; ++n)
        fill(place = place == STAGES - 1 ? 0 : place + 1);

    int left_over = end - first;
    multiply_stages(sums, my_stage(shared), ring.wait() * TILES_FLOATS, [&] {
        ring.release(lane);
        left_over -= BK;
        if (left_over <= 0) return -1;
        if (ahead < end) fill(ring.acquire());
        return ring.wait() * TILES_FLOATS;
    });
    __syncthreads();
}

// ---- the end -------------------------------------------------------------------------------------

// C = alpha * sums + beta * C for four neighbours of a row, from (row, col) on, of C, M × N with
// `ldc` elements from row to row. Those outside are left out. Where beta is 0, C is not read.
__device__ __forceinline__ void store_four(float* C, int ldc, int M, int N, int row, int col,
                                           const float* sums, float alpha, float beta)
{
    float* here = C + (size_t)row * ldc + col;
    if (row >= M) return;
    if (col + 4 <= N && ldc % 4 == 0 && (size_t)C % 16 == 0) {
        float4 four = make_float4(alpha * sums[0], alpha * sums[1],
                                  alpha * sums[2], alpha * sums[3]);
        if (beta != 0.0f) {
            const float4 old = *(const float4*)here;
            four.x += beta * old.x;
            four.y += beta * old.y;
            four.z += beta * old.z;
            four.w += beta * old.w;
        }
        *(float4*)here = four;
        return;
    }
    #pragma unroll
    for (int v = 0; v < 4; ++v)
        if (col + v < N)
            here[v] = beta == 0.0f ? alpha * sums[v] : alpha * sums[v] + beta * here[v];
}

// The same for all my sums of the tile at (top, left).
__device__ __forceinline__ void store_tile(float* C, int ldc, int M, int N, int top, int left,
                                           const float (&sums)[TM][TN], float alpha, float beta)
{
    const int row = top + first_row(threadIdx.x), col = left + first_column(threadIdx.x);
    const bool inside = top + BM <= M && left + BN <= N && ldc % 4 == 0 && (size_t)C % 16 == 0;
    if (inside && beta == 0.0f) {                // nothing is to be asked for each four
        float* here = C + (size_t)row * ldc + col;
        #pragma unroll
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int q = 0; q < TN / 4; ++q) {
                const float* four = &sums[i][4 * q];
                *(float4*)(here + (size_t)row_step(i) * ldc + column_step(q)) =
                    make_float4(alpha * four[0], alpha * four[1], alpha * four[2], alpha * four[3]);
            }
        return;
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q)
            store_four(C, ldc, M, N, row + row_step(i), col + column_step(q), &sums[i][4 * q],
                       alpha, beta);
}
