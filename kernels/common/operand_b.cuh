// How B is stored, K×N or with OP_B=1 N×K, and so how it lies in a stage.
#pragma once

#include "hopper_settings.cuh"
#include "tma.cuh"
#include "wgmma_16bit.cuh"

#ifndef OP_B
#define OP_B 0
#endif

#if OP_B

constexpr bool TRANSPOSE_B = false;              // rows lie along K, as A's do
constexpr int BYTES_PER_K = sizeof(Element);     // from one k to the next in shared memory

// Start to copy a tile of B, from (k, n) on; its bytes count at `full`.
__device__ __forceinline__ void copy_b(unsigned to, const TensorMap& map_b, int k, int n,
                                       unsigned full)
{
    tma_load(to, map_b, n, k, full);             // one box
}

#else

constexpr bool TRANSPOSE_B = true;               // rows lie along N: one for each k
constexpr int BYTES_PER_K = ROW_BYTES;           // from one k to the next in shared memory

// Start to copy a tile of B, from (k, n) on; its bytes count at `full`.
__device__ __forceinline__ void copy_b(unsigned to, const TensorMap& map_b, int k, int n,
                                       unsigned full)
{
    #pragma unroll
    for (int c = 0; c < BN; c += ROW_ELEMENTS)            // a square box for 64 columns
        tma_load(to + c * ROW_BYTES, map_b, k, n + c, full);
}

#endif
