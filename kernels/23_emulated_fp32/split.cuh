// The first launch: A and B are read once (where rows are scaled, twice), and their parts written.
#pragma once

#include "parts.cuh"
#include "programmatic_launch.cuh"
#include "tile_order.cuh"

constexpr int SPLIT_LINES = 32;                  // lines of A or B that a block splits
constexpr int CHUNK = 8;                         // numbers along K that a thread splits at a time
constexpr int CHUNKS = BK / CHUNK;
constexpr int LINES_ACROSS = 8;                  // of neighbouring threads, if K lies across memory
constexpr int SPLIT_GROUPS = SCALED ? 4 : 1;     // of threads, which take turns along K
constexpr int SPLIT_THREADS = SPLIT_GROUPS * SPLIT_LINES * CHUNKS;

constexpr int LARGEST_SCALED = 14;               // exponent of the largest of a line, when scaled
constexpr int LEAST_EXPONENT = -112;             // so that what scales it is a float, too

// A matrix as lines along K; `next_line` and `next_k`: elements from one to the next.
struct Lines {
    const float* X;
    int lines, next_line, next_k;

    // Whether a line's chunks begin at multiples of 16 bytes, and their numbers are neighbours.
    __device__ __forceinline__ bool aligned() const
    {
        return next_k == 1 && ((size_t)X | (size_t)next_line * sizeof(float)) % 16 == 0;
    }
    // Those of a line from k on, with zeros beyond the matrix.
    __device__ __forceinline__ void load(float (&numbers)[CHUNK], int line, int k, int K) const
    {
        const float* from = X + (size_t)line * next_line + (size_t)k * next_k;
        if (aligned() && line < lines && k + CHUNK <= K) {
            *(float4*)numbers = *(const float4*)from;
            *(float4*)(numbers + 4) = *(const float4*)(from + 4);
        } else {
            #pragma unroll
            for (int i = 0; i < CHUNK; ++i)
                numbers[i] = line < lines && k + i < K ? from[(size_t)i * next_k] : 0.0f;
        }
    }
};

// Block x has 32 lines of A, or then of B, and all of K if they are scaled. If not, block y has
// every gridDim.y-th BK. `lost` is set where a part may have too few bits for a small number.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS)
split(const float* A, const float* B, TileParts* parts_a, TileParts* parts_b, int* exponents_a,
      int* exponents_b, int* lost, int M, int N, int K, int lda, int ldb)
{
    const int blocks_a = ceil_div(M, TILE_LINES) * (TILE_LINES / SPLIT_LINES);
    const bool of_a = blockIdx.x < blocks_a;
    const Lines lines = of_a ? Lines{A, M, OP_A ? 1 : lda, OP_A ? lda : 1}
                             : Lines{B, N, OP_B ? ldb : 1, OP_B ? 1 : ldb};
    const int first = (of_a ? blockIdx.x : blockIdx.x - blocks_a) * SPLIT_LINES;
    const int k_tiles = ceil_div(K, BK);

    // Neighbouring threads load, and store, whole sectors of 32 bytes.
    const bool along_k = lines.next_k == 1;
    const int group = threadIdx.x / (SPLIT_LINES * CHUNKS);
    const int thread = threadIdx.x % (SPLIT_LINES * CHUNKS);
    int in_block = thread / CHUNKS, chunk = thread % CHUNKS;
    if (!along_k) {
        in_block = thread % LINES_ACROSS + thread / (LINES_ACROSS * CHUNKS) * LINES_ACROSS;
        chunk = thread / LINES_ACROSS % CHUNKS;
    }
    const int line = first + in_block, row = line % TILE_LINES;

    trigger_next_launch();
    wait_for_previous_launch();                  // which may still read parts, or have written A

    float scale = 1.0f;
    if constexpr (SCALED) {
        __shared__ unsigned largest[SPLIT_LINES];          // bits, in the order of magnitudes
        if (threadIdx.x < SPLIT_LINES) largest[threadIdx.x] = 0;
        __syncthreads();
        unsigned bits = 0;
        for (int k_tile = group; k_tile < k_tiles; k_tile += SPLIT_GROUPS) {
            float numbers[CHUNK];
            lines.load(numbers, line, k_tile * BK + chunk * CHUNK, K);
            #pragma unroll
            for (int i = 0; i < CHUNK; ++i) bits = max(bits, __float_as_uint(fabsf(numbers[i])));
        }
        atomicMax(&largest[in_block], bits);
        __syncthreads();
        const int exponent = max((int)(largest[in_block] >> 23) - 127, LEAST_EXPONENT)
                           - LARGEST_SCALED;
        scale = __int_as_float(127 - exponent << 23);
        if (chunk == 0 && group == 0) (of_a ? exponents_a : exponents_b)[line] = exponent;
    }

    // From this on all bits that matter have a place: in bfloat16 no part is subnormal; of scaled
    // numbers the parts keep what a sum of K products in float32 could keep.
    const float least = SCALED ? 0x1p-11f / K : 0x1p-102f;
    bool loses = false;
    TileParts* const parts = (of_a ? parts_a : parts_b) + (size_t)(line / TILE_LINES) * k_tiles;
    const int place = row * ROW_BYTES + (chunk ^ row % 8) * 16;        // swizzled
    for (int k_tile = blockIdx.y * SPLIT_GROUPS + group; k_tile < k_tiles;
         k_tile += gridDim.y * SPLIT_GROUPS) {
        float rest[CHUNK];
        lines.load(rest, line, k_tile * BK + chunk * CHUNK, K);
        #pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            const float number = rest[i];
            rest[i] = number * scale;
            // By its bits, as a subnormal number counts as 0.
            loses |= __float_as_uint(number) << 1 != 0 && fabsf(rest[i]) < least;
        }
        #pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            uint4 bits;
            bits.x = take_part(rest[0], rest[1]);
            bits.y = take_part(rest[2], rest[3]);
            bits.z = take_part(rest[4], rest[5]);
            bits.w = take_part(rest[6], rest[7]);
            *(uint4*)(parts[k_tile][part] + place) = bits;
        }
    }
    if (loses && lost) *lost = 1;
}
