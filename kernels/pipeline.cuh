// A ring of tiles in shared memory, filled by asynchronous copies while others of it are read. Two
// mbarriers guard each place of the ring: a full one, which says that the copies of all threads have
// arrived, and an empty one, which says that all warps have read the place. Nobody waits for the
// whole block. From sm_80 on. Places in shared memory are 32-bit addresses here.
#pragma once

__device__ __forceinline__ unsigned shared_address(const void* pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// Start to copy BYTES bytes, 4 or 16. Unless INSIDE promises that they are in the matrix, zeros take
// the place of those that are not `inside`. 16 bytes go past L1; 4 do not, as their neighbours in
// the sector are wanted too.
template <bool INSIDE, int BYTES>
__device__ __forceinline__ void start_copy(unsigned to, const float* from, bool inside)
{
    const int read = INSIDE || inside ? BYTES : 0;
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(to), "l"(from), "r"(read) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                     :: "r"(to), "l"(from), "r"(read) : "memory");
}

// A phase of the mbarrier at this place is over when `count` arrivals have come.
__device__ __forceinline__ void set_up(unsigned barrier, int count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }"
                 :: "r"(barrier) : "memory");
}

// I arrive as soon as all copies that I started are there.
__device__ __forceinline__ void arrive_when_copied(unsigned barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(barrier) : "memory");
}

// Wait until the phase with this parity, 0 for the first one, is over.
__device__ __forceinline__ void wait_for(unsigned barrier, int parity)
{
    int over;
    do {
#if __CUDA_ARCH__ >= 900
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
                     " selp.s32 %0, 1, 0, p; }" : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
#else
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"
                     " selp.s32 %0, 1, 0, p; }" : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
#endif
    } while (!over);
}
