// A ring of places in shared memory, filled by asynchronous copies while others of it are read. From
// sm_80 on. Addresses in shared memory are 32 bits here.
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

// A phase of the mbarrier at this address is over when `count` arrivals have come.
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

// What one thread knows of a ring. Two mbarriers guard each place: `full`, at which every thread
// arrives with its copies, and `empty`, at which every warp arrives when it has read the place. So
// the warps of a block stay together, with some slack: one runs ahead of the others until a place
// that it wants to read is not full, or one that it wants to fill is not empty.
template <int PLACES>
struct Ring {
    unsigned full, empty;                        // mbarriers of place 0; the others' lie behind
    int parity = 1, place = PLACES - 1;          // of the last wait: of its round, and where

    // By all threads of the block: set the mbarriers up.
    __device__ __forceinline__ Ring(unsigned long long (&barriers)[2 * PLACES], int threads)
        : full(shared_address(barriers)), empty(full + 8 * PLACES)
    {
        if (threadIdx.x < PLACES) {
            set_up(full + 8 * threadIdx.x, threads);
            set_up(empty + 8 * threadIdx.x, threads / 32);
        }
        __syncthreads();
    }

    // The next place to be filled is the one that was read before this. Wait until all warps have
    // released it.
    __device__ __forceinline__ int acquire() const
    {
        const int freed = place == 0 ? PLACES - 1 : place - 1;
        wait_for(empty + 8 * freed, place == 0 ? parity ^ 1 : parity);
        return freed;
    }

    // My copies into a place are all started.
    __device__ __forceinline__ void commit(int filled) const
    {
        arrive_when_copied(full + 8 * filled);
    }

    // Go on to the next place, and wait until the copies of all threads are there.
    __device__ __forceinline__ int wait()
    {
        if (++place == PLACES) { place = 0; parity ^= 1; }
        wait_for(full + 8 * place, parity);
        return place;
    }

    // My warp has read this place: its lane 0 arrives for all.
    __device__ __forceinline__ void release(int lane) const
    {
        __syncwarp();
        if (lane == 0) arrive(empty + 8 * place);
    }
};
