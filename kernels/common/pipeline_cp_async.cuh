// A pipeline of STAGES stages in shared memory: all threads of a block fill one with cp.async while
// they read others. From sm_80 on.
#pragma once

#include "mbarrier.cuh"
#include "cp_async.cuh"

// One thread's view of the pipeline. Two mbarriers guard each stage: `full`, at which every thread
// arrives with its copies, and `empty`, at which every warp arrives when it has read the stage. So
// warps drift apart by some steps: one runs ahead until a stage that it wants to read is not full,
// or one that it wants to fill is not empty.
struct Pipeline {
    unsigned full, empty;                        // mbarriers of stage 0; the others follow
    int parity = 1;                              // of the full phase; it changes with stage 0
    int stage = STAGES - 1;                      // that is read; at first the one before stage 0

    // By all threads of the block: initialize the mbarriers.
    __device__ __forceinline__ Pipeline(unsigned long long (&barriers)[2 * STAGES], int threads)
        : full(shared_address(barriers)), empty(full + MBARRIER_BYTES * STAGES)
    {
        if (threadIdx.x < STAGES) {
            mbarrier_init(full + MBARRIER_BYTES * threadIdx.x, threads);
            mbarrier_init(empty + MBARRIER_BYTES * threadIdx.x, threads / 32);
        }
        __syncthreads();
    }

    // The next stage to fill is the one before `stage`: of `stage` itself other warps may still
    // read. Wait until all warps have released it. It was read in this round of the pipeline or, if
    // `stage` is 0, in the round before, of the other parity. In the first round that is parity 1
    // of a new barrier, so nobody waits for a stage that was never read.
    __device__ __forceinline__ int acquire() const
    {
        const int freed = stage == 0 ? STAGES - 1 : stage - 1;
        mbarrier_wait(empty + MBARRIER_BYTES * freed, stage == 0 ? parity ^ 1 : parity);
        return freed;
    }

    // This thread has started all its copies into a stage: arrive when they are complete.
    __device__ __forceinline__ void commit(int filled) const
    {
        cp_async_arrive(full + MBARRIER_BYTES * filled);
    }

    // Go on to the next stage, and wait until the copies of all threads are complete.
    __device__ __forceinline__ int wait()
    {
        if (++stage == STAGES) { stage = 0; parity ^= 1; }
        mbarrier_wait(full + MBARRIER_BYTES * stage, parity);
        return stage;
    }

    // This warp has read the stage: lane 0 arrives for all.
    __device__ __forceinline__ void release(int lane) const
    {
        __syncwarp();
        if (lane == 0) mbarrier_arrive(empty + MBARRIER_BYTES * stage);
    }
};
