// Fragments of a tile product whose A stays in rows in shared memory (A_IN_ROWS), included by
// tile_product.cuh. A thread's rows of C are single ones here, those of neighbouring lanes are
// neighbours; it loads four k of each at once.
#pragma once

__device__ __forceinline__ int first_row_of_thread(int thread)
{
    return thread / 32 / (BN / WN) * WM + thread % 32 / LANES_N;
}

__device__ __forceinline__ constexpr int row_offset(int i) { return i * LANES_M; }

struct Fragments {
    float a[4][TM], b[2][TN];
};

struct StageView {
    const float *a, *b;
    int swizzled;                                // what trades places in this thread's rows
    int units;                                   // of four k, that have been read of A's rows

    __device__ __forceinline__ StageView at(int offset) const
    {
        return {a + offset, b + offset, swizzled, 0};
    }

    __device__ __forceinline__ void advance()
    {
        units += CHUNK / 4;
        b += CHUNK * CopyB::PITCH;
    }
};

__device__ __forceinline__ StageView view_of_thread(const Stage* stages)
{
    const int row = first_row_of_thread(threadIdx.x);
    const float* first = &stages->a[0][0];
    return {first + row * BK, first + BM * BK + first_col_of_thread(threadIdx.x), swizzle(row), 0};
}

__device__ __forceinline__ void load_b(float (&b)[TN], const StageView& view, int k)
{
    #pragma unroll
    for (int q = 0; q < TN / 4; ++q)
        *(float4*)&b[4 * q] = *(const float4*)&view.b[k * CopyB::PITCH + col_offset(q)];
}

// Four k of row i.
__device__ __forceinline__ void load_row_of_a(float (&a)[4][TM], int i, const StageView& view,
                                              int k)
{
    const int unit = (k / 4) ^ swizzle(row_offset(i)) ^ (view.swizzled ^ view.units);
    const float4 four = *(const float4*)&view.a[row_offset(i) * BK + 4 * unit];
    a[0][i] = four.x;
    a[1][i] = four.y;
    a[2][i] = four.z;
    a[3][i] = four.w;
}

// Those of the first k of a stage; multiply() loads all others.
__device__ __forceinline__ void load_fragments(Fragments& fragments, int, const StageView& view,
                                               int)
{
    load_b(fragments.b[0], view, 0);
    #pragma unroll
    for (int i = 0; i < TM; ++i) load_row_of_a(fragments.a, i, view, 0);
}

// As the one for a transposed A, but the next four k of a row are loaded as soon as these are used.
template <bool LOAD_NEXT>
__device__ __forceinline__ void multiply(float (&accumulators)[TM][TN], Fragments& fragments, int k,
                                         const StageView& next, int next_k)
{
    if (LOAD_NEXT) load_b(fragments.b[(k + 1) % 2], next, next_k);
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int n = 0; n < TN; ++n) {
            const int j = i % 2 ? n : TN - 1 - n;
            accumulators[i][j] += fragments.a[k % 4][i] * fragments.b[k % 2][j];
        }
        if (LOAD_NEXT && k % 4 == 3) load_row_of_a(fragments.a, i, next, next_k);
    }
}
