// cp.async: asynchronous copies from global to shared memory, past the registers. From sm_80 on.
#pragma once

#ifndef L2_PREFETCH
#define L2_PREFETCH ""           // ".L2::128B": a copy also brings the rest of its 128 bytes into L2
#endif

// Start to copy BYTES bytes, 4 or 16, to a shared address. Only the first `valid` bytes are read;
// zeros take the place of the others. 16 bytes go past L1 (.cg has no other size); 4 go through it,
// where the next copies find the rest of the sector.
template <int BYTES, typename Element>
__device__ __forceinline__ void cp_async(unsigned to, const Element* from, int valid = BYTES)
{
    static_assert(BYTES == 4 || BYTES == 16, "a copy is of 4 or 16 bytes here");
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global" L2_PREFETCH " [%0], [%1], 16, %2;"
                     :: "r"(to), "l"(from), "r"(valid) : "memory");
    else
        asm volatile("cp.async.ca.shared.global" L2_PREFETCH " [%0], [%1], 4, %2;"
                     :: "r"(to), "l"(from), "r"(valid) : "memory");
}

// The copies that this thread has started since the last call become one group.
__device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Wait until at most PENDING of this thread's groups are still under way.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

// Let this thread arrive at an mbarrier later, when all copies that it has started so far are
// complete; it does not wait for that. noinc: mbarrier_init has counted this arrival as expected.
__device__ __forceinline__ void cp_async_arrive(unsigned barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(barrier) : "memory");
}
