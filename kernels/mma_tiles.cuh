// How tiles of A and B come to shared memory, a share with each step along K: by asynchronous copies of
// 16 bytes, or through registers where rows of the matrices do not begin at multiples of 16 bytes.
#pragma once

#include "mma_operands.cuh"

#define STEPS (BK / DEPTH)                       // mma.sync along K in one stage
static_assert(STAGES >= 3, "one is multiplied, the next one is there, another is filled");
static_assert(STEPS % 2 == 0, "two sets of operands take turns");

// A pair of tiles.
struct Stage {
    uint4 a[BM * A_CHUNKS];
    uint4 b[BK * B_CHUNKS];
};

// Blocks that run at the same time shall share tiles in L2: GROUP rows of blocks go together, column
// by column.
__device__ __forceinline__ void find_corner(int& top, int& left)
{
    const int id = blockIdx.y * gridDim.x + blockIdx.x;
    const int group = id / (GROUP * gridDim.x), above = group * GROUP;
    const int rows = min((int)gridDim.y - above, GROUP), within = id - above * gridDim.x;
    top = (above + within % rows) * BM;
    left = within / rows * BN;
}

// The two matrices, the block's corner of C, and where the next pair of tiles begins along K.
struct Source {
    const Element *A, *B;
    int M, N, K, top, left, k;
    const Element *a, *b;                        // my first chunks of that pair

    __device__ __forceinline__ Source(const Element* A, const Element* B, int M, int N, int K,
                                      int top, int left)
        : A(A), B(B), M(M), N(N), K(K), top(top), left(left), k(0),
          a(A + (size_t)(top + threadIdx.x / A_CHUNKS) * K + threadIdx.x % A_CHUNKS * CHUNK),
          b(B + (size_t)(threadIdx.x / B_CHUNKS) * N + left + threadIdx.x % B_CHUNKS * CHUNK)
    {
    }

    __device__ __forceinline__ void next()
    {
        a += BK;
        b += (size_t)BK * N;
        k += BK;
    }
};

// Start to copy a chunk, or to put zeros in its place. It goes past L1.
__device__ __forceinline__ void copy_chunk(uint4* to, const Element* from, bool inside)
{
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(place), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

// The chunk at element `at` of an array of `all`, of which `count` elements are wanted and the others
// are zero. It begins anywhere, so its words are put together from five that lie at multiples of 4
// bytes. Where one of the five is not all in the array, the chunk is brought byte by byte.
__device__ __forceinline__ uint4 chunk_from(const Element* X, size_t at, size_t all, int count)
{
    const int wanted = min(count, CHUNK) * SIZE;               // bytes
    const unsigned char* from = (const unsigned char*)(X + at);
    unsigned w[5] = {};
    if (count > 0 && at + CHUNK + 4 / SIZE <= all) {
        const int off = (size_t)from % 4;
        #pragma unroll
        for (int i = 0; i < 5; ++i) w[i] = ((const unsigned*)(from - off))[i];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int kept = wanted - 4 * i;                   // bytes of this word
            w[i] = __funnelshift_r(w[i], w[i + 1], 8 * off);
            w[i] &= kept >= 4 ? ~0u : kept <= 0 ? 0u : (1u << 8 * kept) - 1;
        }
    } else {
        #pragma unroll 1
        for (int i = wanted - 1; i >= 0; --i) {                // the last byte first
            w[3] = __funnelshift_l(w[2], w[3], 8);
            w[2] = __funnelshift_l(w[1], w[2], 8);
            w[1] = __funnelshift_l(w[0], w[1], 8);
            w[0] = w[0] << 8 | from[i];
        }
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

// Of both tiles of a stage, the chunks that a thread brings with one step: an even part of those that
// it brings in all. ALIGNED: all rows begin at multiples of 16 bytes.
constexpr int A_SHARE = BM * A_CHUNKS / THREADS, B_SHARE = BK * B_CHUNKS / THREADS;
static_assert(BM * A_CHUNKS % THREADS == 0 && BK * B_CHUNKS % THREADS == 0,
              "each thread brings as many as the others");

template <bool ALIGNED>
struct Share {
    uint4 a[A_SHARE / STEPS + 1], b[B_SHARE / STEPS + 1];    // on their way, unless ALIGNED

    static __device__ constexpr int begin(int share, int step) { return share * step / STEPS; }
    static __device__ __forceinline__ int row_of_a(int i)
    {
        return threadIdx.x / A_CHUNKS + i * (THREADS / A_CHUNKS);
    }
    static __device__ __forceinline__ int row_of_b(int i)
    {
        return threadIdx.x / B_CHUNKS + i * (THREADS / B_CHUNKS);
    }
    static __device__ __forceinline__ int place_of_a(int i)
    {
        return place_in_a(row_of_a(i), threadIdx.x % A_CHUNKS);
    }
    static __device__ __forceinline__ int place_of_b(int i)
    {
        return place_in_b(row_of_b(i), threadIdx.x % B_CHUNKS);
    }

    __device__ __forceinline__ void start(Stage& stage, const Source& from, int step)
    {
        const int k = from.k + threadIdx.x % A_CHUNKS * CHUNK;
        const int column = from.left + threadIdx.x % B_CHUNKS * CHUNK;
        #pragma unroll
        for (int i = begin(A_SHARE, step); i < begin(A_SHARE, step + 1); ++i) {
            const int row = from.top + row_of_a(i);
            if (ALIGNED)
                copy_chunk(stage.a + place_of_a(i),
                           from.a + (size_t)(i * (THREADS / A_CHUNKS)) * from.K,
                           row < from.M && k < from.K);
            else
                a[i - begin(A_SHARE, step)] =
                    chunk_from(from.A, (size_t)row * from.K + k, (size_t)from.M * from.K,
                               row < from.M ? from.K - k : 0);
        }
        #pragma unroll
        for (int i = begin(B_SHARE, step); i < begin(B_SHARE, step + 1); ++i) {
            const int row = from.k + row_of_b(i);
            if (ALIGNED)
                copy_chunk(stage.b + place_of_b(i),
                           from.b + (size_t)(i * (THREADS / B_CHUNKS)) * from.N,
                           row < from.K && column < from.N);
            else
                b[i - begin(B_SHARE, step)] =
                    chunk_from(from.B, (size_t)row * from.N + column, (size_t)from.K * from.N,
                               row < from.K ? from.N - column : 0);
        }
    }

    __device__ __forceinline__ void finish(Stage& stage, int step) const
    {
        if (ALIGNED) return;
        #pragma unroll
        for (int i = begin(A_SHARE, step); i < begin(A_SHARE, step + 1); ++i)
            stage.a[place_of_a(i)] = a[i - begin(A_SHARE, step)];
        #pragma unroll
        for (int i = begin(B_SHARE, step); i < begin(B_SHARE, step + 1); ++i)
            stage.b[place_of_b(i)] = b[i - begin(B_SHARE, step)];
    }
};
