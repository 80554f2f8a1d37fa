// A share of a tile where it has many parts, SPLIT: part of join.cuh. LANES lanes add one float4
// together, each every LANES-th part, and then their sums. So many that a share is about a float4
// for LANES threads.
#pragma once

__device__ __forceinline__ constexpr int power_of_two(int n)    // up to n
{
    return n < 2 ? 1 : 2 * power_of_two(n / 2);
}

constexpr int MOST_LANES = SPLIT / THREAD_FLOAT4S < 16 ? SPLIT / THREAD_FLOAT4S : 16;
constexpr int LANES = power_of_two(MOST_LANES);

// As the one of join.cuh.
__device__ __forceinline__ void add_share(const Output& out, const float4* parts, int tile,
                                          int share, int shares)
{
    const int first = TILE_FLOAT4S * share / shares, end = TILE_FLOAT4S * (share + 1) / shares;
    const int lane = threadIdx.x % LANES;
    #pragma unroll 1
    for (int base = first; base < end; base += THREADS / LANES) {
        const int at = base + threadIdx.x / LANES;
        const float4* from = parts + (size_t)tile * SPLIT * TILE_FLOAT4S + min(at, end - 1);
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        #pragma unroll
        for (int part = 0; part < SPLIT; part += LANES)
            if (SPLIT % LANES == 0 || part + lane < SPLIT)
                sum = sum + __ldcg(&from[(size_t)(part + lane) * TILE_FLOAT4S]);
        #pragma unroll
        for (int apart = LANES / 2; apart > 0; apart /= 2)
            sum = sum + make_float4(__shfl_xor_sync(~0u, sum.x, apart),
                                    __shfl_xor_sync(~0u, sum.y, apart),
                                    __shfl_xor_sync(~0u, sum.z, apart),
                                    __shfl_xor_sync(~0u, sum.w, apart));
        if (lane == 0 && at < end) store_to_c(out, at, sum);
    }
}
