// Counters in global memory by which blocks of a grid wait for one another.
#pragma once

// Add 1, and return the count before. Who sees the new count with counter_load also sees what this
// thread wrote before, and what other threads of the block wrote before a barrier that came before.
__device__ __forceinline__ unsigned counter_increment(unsigned* counter)
{
    unsigned before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
                 : "=r"(before) : "l"(counter) : "memory");
    return before;
}

__device__ __forceinline__ unsigned counter_load(const unsigned* counter)
{
    unsigned count;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counter) : "memory");
    return count;
}

// By all threads: whether this block is the last of `blocks` to arrive. The last one clears the
// counter.
__device__ __forceinline__ bool is_last_block(unsigned* counter, int blocks)
{
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        last = counter_increment(counter) == blocks - 1;
        if (last) *counter = 0;
    }
    __syncthreads();
    return last;
}
