// 00  Ceilings of the levels of memory
// Idea:    measure how fast each level of memory can be read, as 00_ceilings measures a copy: DRAM
//          by a stream that is read once, L2 and L1 by a set that fits there and is read again and
//          again, shared memory likewise. Products read far more than they write.
// Launch:  any one-dimensional block and grid; the ladder chooses them.
// Takes:   from: count float4 elements, 16-byte aligned, of whole numbers whose sums a float holds
//          exactly; one float of out per thread; rounds >= 1. read_together: count is a multiple
//          of AHEAD times the threads of the grid; read_alone and read_shared: of those of a block.
//          read_shared also takes count float4 of dynamic shared memory.
// Counts:  read_together reads 16 * count * rounds bytes; the others 16 * count * rounds per block.

#include "shared_address.cuh"

#ifndef AHEAD
#define AHEAD 4
#endif
#ifndef IN_L1
#define IN_L1 0
#endif
#if IN_L1
#define CACHE "ca"
#else
#define CACHE "cg"   // in L2 only
#endif

// A load that the compiler neither leaves out nor keeps for the next round.
__device__ __forceinline__ float4 load_global(const float4* address)
{
    float4 v;
    asm volatile("ld.global." CACHE ".v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(address));
    return v;
}

__device__ __forceinline__ float4 load_shared(unsigned address)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address));
    return v;
}

__device__ __forceinline__ float sum(float4 v)
{
    return (v.x + v.y) + (v.z + v.w);
}

// Every thread loads AHEAD float4, a stride apart, before it adds the first.
__device__ __forceinline__ float read(const float4* from, long long count, int rounds,
                                      long long first, long long stride)
{
    float total = 0.0f;
    for (int round = 0; round < rounds; ++round)
        for (long long i = first; i < count; i += AHEAD * stride) {
            float4 v[AHEAD];
            #pragma unroll
            for (int ahead = 0; ahead < AHEAD; ++ahead)
                v[ahead] = load_global(from + i + ahead * stride);
            #pragma unroll
            for (int ahead = 0; ahead < AHEAD; ++ahead)
                total += sum(v[ahead]);
        }
    return total;
}

// All threads of the grid share the elements: each is read once in a round.
extern "C" __global__ void
read_together(const float4* __restrict__ from, float* __restrict__ out, long long count, int rounds)
{
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    out[thread] = read(from, count, rounds, thread, (long long)gridDim.x * blockDim.x);
}

// Every block reads all elements, so each SM has them in its own L1.
extern "C" __global__ void
read_alone(const float4* __restrict__ from, float* __restrict__ out, long long count, int rounds)
{
    out[(long long)blockIdx.x * blockDim.x + threadIdx.x] =
        read(from, count, rounds, threadIdx.x, blockDim.x);
}

// The same, from a copy in shared memory.
extern "C" __global__ void
read_shared(const float4* __restrict__ from, float* __restrict__ out, long long count, int rounds)
{
    extern __shared__ float4 values[];
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        values[i] = from[i];
    __syncthreads();

    const unsigned base = shared_address(values);
    float total = 0.0f;
    for (int round = 0; round < rounds; ++round)
        for (int i = threadIdx.x; i < count; i += AHEAD * blockDim.x) {
            float4 v[AHEAD];
            #pragma unroll
            for (int ahead = 0; ahead < AHEAD; ++ahead)
                v[ahead] = load_shared(base + 16 * (i + ahead * blockDim.x));
            #pragma unroll
            for (int ahead = 0; ahead < AHEAD; ++ahead)
                total += sum(v[ahead]);
        }
    out[(long long)blockIdx.x * blockDim.x + threadIdx.x] = total;
}
