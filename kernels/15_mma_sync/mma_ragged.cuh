// Where rows of A or of B do not all begin at multiples of 16 bytes, the chunks of both go through
// registers. The idea of the rung does without; a first reading can leave this out.
#pragma once

#include "mma_tiles.cuh"

// A chunk that begins anywhere: the five words that it lies in.
struct RaggedChunk {
    unsigned words[5];
    int skipped;                                 // bits of the first word that come before it

    // Load the chunk at element `first` of an array of `size`. Only `valid` elements of it are
    // wanted, the others are zero. At the end of a row, and of the array, byte by byte.
    __device__ __forceinline__ void load(const Element* X, size_t first, size_t size, int valid)
    {
        const unsigned char* bytes = (const unsigned char*)(X + first);
        skipped = 0;
        #pragma unroll
        for (int i = 0; i < 5; ++i) words[i] = 0;
        // The fifth word has to lie in the array, too.
        if (valid >= CHUNK && first + CHUNK + 4 / (int)sizeof(Element) <= size) {
            const int before = (size_t)bytes % 4;
            skipped = 8 * before;
            #pragma unroll
            for (int i = 0; i < 5; ++i) words[i] = ((const unsigned*)(bytes - before))[i];
        } else {                                 // from the last byte to the first: all move up
            #pragma unroll 1
            for (int i = min(valid, CHUNK) * (int)sizeof(Element) - 1; i >= 0; --i) {
                words[3] = __funnelshift_l(words[2], words[3], 8);
                words[2] = __funnelshift_l(words[1], words[2], 8);
                words[1] = __funnelshift_l(words[0], words[1], 8);
                words[0] = words[0] << 8 | bytes[i];
            }
        }
    }

    __device__ __forceinline__ uint4 aligned() const
    {
        return make_uint4(__funnelshift_r(words[0], words[1], skipped),
                          __funnelshift_r(words[1], words[2], skipped),
                          __funnelshift_r(words[2], words[3], skipped),
                          __funnelshift_r(words[3], words[4], skipped));
    }
};

// This thread's chunks of a stage. With each k_step a share of them is loaded and then stored.
// Where registers suffice, all are loaded with the first and stored with the last: then a whole
// stage of mma hides the loads.
struct RaggedChunks {
    static constexpr bool ALL_TOGETHER = A_COPIES + B_COPIES <= 8;
    static constexpr int FIRST = 0, LAST = K_STEPS - 1;
    RaggedChunk a[A_COPIES], b[B_COPIES];

    // Of `chunks` chunks, the number of the first one that is loaded or stored with a k_step. Where
    // they are ALL_TOGETHER, all are with k_step `only`.
    static __device__ __forceinline__ constexpr int begin(int chunks, int k_step, int only)
    {
        return ALL_TOGETHER ? (k_step > only ? chunks : 0) : chunks * k_step / K_STEPS;
    }

    __device__ __forceinline__ void load_part(const NextTiles& next, int k_step)
    {
        const int k = next.k + threadIdx.x % A_CHUNKS * CHUNK;
        const int column = next.tile_n + threadIdx.x % B_CHUNKS * CHUNK;
        #pragma unroll
        for (int i = begin(A_COPIES, k_step, FIRST); i < begin(A_COPIES, k_step + 1, FIRST); ++i) {
            const int row = next.tile_m + copy_row<A_CHUNKS>(i);
            a[i].load(next.A, (size_t)row * next.K + k, (size_t)next.M * next.K,
                      row < next.M ? next.K - k : 0);
        }
        #pragma unroll
        for (int i = begin(B_COPIES, k_step, FIRST); i < begin(B_COPIES, k_step + 1, FIRST); ++i) {
            const int row = next.k + copy_row<B_CHUNKS>(i);
            b[i].load(next.B, (size_t)row * next.N + column, (size_t)next.K * next.N,
                      row < next.K ? next.N - column : 0);
        }
    }

    __device__ __forceinline__ void store_part(Stage& stage, int k_step) const
    {
        #pragma unroll
        for (int i = begin(A_COPIES, k_step, LAST); i < begin(A_COPIES, k_step + 1, LAST); ++i)
            *stage_chunk_a(stage, i) = a[i].aligned();
        #pragma unroll
        for (int i = begin(B_COPIES, k_step, LAST); i < begin(B_COPIES, k_step + 1, LAST); ++i)
            *stage_chunk_b(stage, i) = b[i].aligned();
    }
};
