// How tiles of A and B come to shared memory: by asynchronous copies of 16 bytes, or through
// registers where rows of the matrices do not begin at multiples of 16 bytes.
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

// Blocks that run at the same time shall share tiles in L2: GROUP rows of blocks go together,
// column by column.
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

// A chunk that begins anywhere, on its way through registers: the five words that it lies in.
struct Anywhere {
    unsigned words[5];
    int off;                                     // bits of the first word that come before it

    // Bring the chunk at element `at` of an array of `all`, of which `count` elements are wanted
    // and the others are zero. At the end of a row, and of the array, byte by byte.
    __device__ __forceinline__ void load(const Element* X, size_t at, size_t all, int count)
    {
        const unsigned char* from = (const unsigned char*)(X + at);
        off = 0;
        #pragma unroll
        for (int i = 0; i < 5; ++i) words[i] = 0;
        if (count >= CHUNK && at + CHUNK + 4 / SIZE <= all) {
            const int before = (size_t)from % 4;
            off = 8 * before;
            #pragma unroll
            for (int i = 0; i < 5; ++i) words[i] = ((const unsigned*)(from - before))[i];
        } else {
            #pragma unroll 1
            for (int i = min(count, CHUNK) * SIZE - 1; i >= 0; --i) {     // the last byte first
                words[3] = __funnelshift_l(words[2], words[3], 8);
                words[2] = __funnelshift_l(words[1], words[2], 8);
                words[1] = __funnelshift_l(words[0], words[1], 8);
                words[0] = words[0] << 8 | from[i];
            }
        }
    }

    __device__ __forceinline__ uint4 chunk() const
    {
        return make_uint4(__funnelshift_r(words[0], words[1], off),
                          __funnelshift_r(words[1], words[2], off),
                          __funnelshift_r(words[2], words[3], off),
                          __funnelshift_r(words[3], words[4], off));
    }
};

// Of both tiles of a stage, the chunks that a thread brings, a part of them with each step along K.
constexpr int A_SHARE = BM * A_CHUNKS / THREADS, B_SHARE = BK * B_CHUNKS / THREADS;
static_assert(BM * A_CHUNKS % THREADS == 0 && BK * B_CHUNKS % THREADS == 0,
              "each thread brings as many as the others");

__device__ __forceinline__ int row_of_a(int i)
{
    return threadIdx.x / A_CHUNKS + i * (THREADS / A_CHUNKS);
}

__device__ __forceinline__ int row_of_b(int i)
{
    return threadIdx.x / B_CHUNKS + i * (THREADS / B_CHUNKS);
}

__device__ __forceinline__ uint4* my_chunk_of_a(Stage& stage, int i)
{
    return stage.a + place_in_a(row_of_a(i), threadIdx.x % A_CHUNKS);
}

__device__ __forceinline__ uint4* my_chunk_of_b(Stage& stage, int i)
{
    return stage.b + place_in_b(row_of_b(i), threadIdx.x % B_CHUNKS);
}

// All rows begin at multiples of 16 bytes.
struct Copies {
    __device__ __forceinline__ void start(Stage& stage, const Source& from, int step)
    {
        const bool a_along = from.k + threadIdx.x % A_CHUNKS * CHUNK < from.K;
        const bool b_along = from.left + threadIdx.x % B_CHUNKS * CHUNK < from.N;
        #pragma unroll
        for (int i = A_SHARE * step / STEPS; i < A_SHARE * (step + 1) / STEPS; ++i)
            copy_chunk(my_chunk_of_a(stage, i),
                       from.a + (size_t)(i * (THREADS / A_CHUNKS)) * from.K,
                       a_along && from.top + row_of_a(i) < from.M);
        #pragma unroll
        for (int i = B_SHARE * step / STEPS; i < B_SHARE * (step + 1) / STEPS; ++i)
            copy_chunk(my_chunk_of_b(stage, i),
                       from.b + (size_t)(i * (THREADS / B_CHUNKS)) * from.N,
                       b_along && from.k + row_of_b(i) < from.K);
    }

    __device__ __forceinline__ void finish(Stage& stage, int step) const {}
};

struct ThroughRegisters {
    // All at once, for as long as the products of a stage take, where registers suffice for that.
    static constexpr bool AT_ONCE = A_SHARE + B_SHARE <= 8;
    static constexpr int FIRST = 0, LAST = STEPS - 1;
    Anywhere a[A_SHARE], b[B_SHARE];

    // Of so many chunks, the first that is loaded or stored with a step, of which `only` is the one
    // with which all are.
    static __device__ __forceinline__ constexpr int part(int share, int step, int only)
    {
        return AT_ONCE ? (step > only ? share : 0) : share * step / STEPS;
    }

    __device__ __forceinline__ void start(Stage& stage, const Source& from, int step)
    {
        const int k = from.k + threadIdx.x % A_CHUNKS * CHUNK;
        const int column = from.left + threadIdx.x % B_CHUNKS * CHUNK;
        #pragma unroll
        for (int i = part(A_SHARE, step, FIRST); i < part(A_SHARE, step + 1, FIRST); ++i) {
            const int row = from.top + row_of_a(i);
            a[i].load(from.A, (size_t)row * from.K + k, (size_t)from.M * from.K,
                      row < from.M ? from.K - k : 0);
        }
        #pragma unroll
        for (int i = part(B_SHARE, step, FIRST); i < part(B_SHARE, step + 1, FIRST); ++i) {
            const int row = from.k + row_of_b(i);
            b[i].load(from.B, (size_t)row * from.N + column, (size_t)from.K * from.N,
                      row < from.K ? from.N - column : 0);
        }
    }

    __device__ __forceinline__ void finish(Stage& stage, int step) const
    {
        #pragma unroll
        for (int i = part(A_SHARE, step, LAST); i < part(A_SHARE, step + 1, LAST); ++i)
            *my_chunk_of_a(stage, i) = a[i].chunk();
        #pragma unroll
        for (int i = part(B_SHARE, step, LAST); i < part(B_SHARE, step + 1, LAST); ++i)
            *my_chunk_of_b(stage, i) = b[i].chunk();
    }
};
