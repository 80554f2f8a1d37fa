// mbarrier: a barrier in shared memory, given by its shared address. A phase completes when all
// expected arrivals, and all expected bytes of TMA, have come; then the next phase begins, with as
// many arrivals. Phases have parity 0, 1, 0, 1, … A wait for a parity ends when the phase under way
// has the other one: so at a new barrier, whose phase has parity 0, a wait for 1 ends at once. From
// sm_80 on.
#pragma once

#include "shared_address.cuh"

constexpr int MBARRIER_BYTES = 8;

__device__ __forceinline__ void mbarrier_init(unsigned barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(barrier), "r"(arrivals) : "memory");
}

// Make initialized mbarriers visible to the copy engine and to the other blocks of the cluster.
__device__ __forceinline__ void mbarrier_fence_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(unsigned barrier)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }"
                 :: "r"(barrier) : "memory");
}

// Arrive, and let the phase wait for so many bytes of bulk copies too. From sm_90 on.
__device__ __forceinline__ void mbarrier_arrive_expect(unsigned barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(barrier), "r"(bytes) : "memory");
}

// Wait until the phase of this parity is complete. try_wait gives up after a while, hence the loop.
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, int parity)
{
    int complete;
    do {
#if __CUDA_ARCH__ >= 900
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
                     " selp.s32 %0, 1, 0, p; }"
                     : "=r"(complete) : "r"(barrier), "r"(parity) : "memory");
#else
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"
                     " selp.s32 %0, 1, 0, p; }"
                     : "=r"(complete) : "r"(barrier), "r"(parity) : "memory");
#endif
    } while (!complete);
}
