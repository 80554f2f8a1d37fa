// Asynchronous copies from global to shared memory, past the registers: from sm_80 on.
#pragma once

// BYTES bytes, 4 or 16. Nobody may read them before they were waited for.
template <int BYTES>
__device__ __forceinline__ void copy_async(float* to, const float* from)
{
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(place), "l"(from), "n"(BYTES) : "memory");
}

// What was started since the last call becomes one group.
__device__ __forceinline__ void commit_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Wait until no more than LEFT of my groups are on their way.
template <int LEFT>
__device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}
