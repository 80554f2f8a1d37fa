// Barriers for COUNT of a block's threads: 16 of them by number, 0 is that of __syncthreads().
#pragma once

template <int COUNT>
__device__ __forceinline__ void named_barrier_sync(int number)
{
    asm volatile("bar.sync %0, %1;" :: "r"(number), "n"(COUNT) : "memory");
}

// Arrive without waiting.
template <int COUNT>
__device__ __forceinline__ void named_barrier_arrive(int number)
{
    asm volatile("bar.arrive %0, %1;" :: "r"(number), "n"(COUNT) : "memory");
}
