// The blocks of a cluster have multiplied parts of K of one tile. Each adds up the sums of all for
// its share of the tile's columns, which the others store to its shared memory.
#pragma once

#include "blocks_epilogue.cuh"
#include "cluster_barrier.cuh"

constexpr int SHARE_OF_TOTALS = ACCUMULATORS / CLUSTER;    // of each thread

static_assert(!SPLITS_K || SHARE_OF_TOTALS % 4 == 0, "sums are exchanged four at a time");

// Four sums of each thread of a warpgroup.
typedef float4 ThreadSums[WARPGROUP_THREADS];
struct ReceivedSums {
    ThreadSums sums[CLUSTER > 1 ? CLUSTER - 1 : 1][CONSUMERS][SHARE_OF_TOTALS / 4];
};

// Send to each other block the sums that it adds up.
__device__ __forceinline__ void send_totals(const float (&totals)[ACCUMULATORS],
                                            ReceivedSums& received, int rank, int warpgroup)
{
    const int thread = threadIdx.x % WARPGROUP_THREADS;
    #pragma unroll
    for (int to = 0; to < CLUSTER; ++to) {
        if (to == rank) continue;
        auto& place = received.sums[rank < to ? rank : rank - 1][warpgroup];
        #pragma unroll
        for (int i = 0; i < SHARE_OF_TOTALS; i += 4) {
            const float* sums = totals + to * SHARE_OF_TOTALS + i;
            asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};"
                         :: "r"(remote_address(shared_address(&place[i / 4][thread]), to)),
                            "f"(sums[0]), "f"(sums[1]), "f"(sums[2]), "f"(sums[3]) : "memory");
        }
    }
}

// After a barrier of the cluster: the sums of all blocks, added in the order of their parts of K.
__device__ __forceinline__ void add_totals(float (&sums)[SHARE_OF_TOTALS],
                                           const float (&totals)[ACCUMULATORS],
                                           const ReceivedSums& received, int rank, int warpgroup)
{
    const int thread = threadIdx.x % WARPGROUP_THREADS;
    #pragma unroll
    for (int from = 0; from < CLUSTER; ++from)
        #pragma unroll
        for (int i = 0; i < SHARE_OF_TOTALS; i += 4) {
            float four[4];
            if (from == rank) {
                #pragma unroll
                for (int owner = 0; owner < CLUSTER; ++owner)
                    if (owner == rank)
                        #pragma unroll
                        for (int j = 0; j < 4; ++j)
                            four[j] = totals[owner * SHARE_OF_TOTALS + i + j];
            } else {
                *(float4*)four =
                    received.sums[from < rank ? from : from - 1][warpgroup][i / 4][thread];
            }
            #pragma unroll
            for (int j = 0; j < 4; ++j) sums[i + j] = from ? sums[i + j] + four[j] : four[j];
        }
}

// Store a share of 64 rows from (m, n) of C on, two neighbours at a time: N is even.
__device__ __forceinline__ void store_share(const float (&sums)[SHARE_OF_TOTALS], ElementC* C,
                                            int m, int n, int M, int N)
{
    #pragma unroll
    for (int i = 0; i < SHARE_OF_TOTALS; i += 2) {
        const int row = m + accumulator_row(i), col = n + accumulator_column(i);
        if (row < M && col < N)
            *(PairC*)(C + (size_t)row * N + col) = round_pair(sums[i], sums[i + 1]);
    }
}
