// Producers and consumers of a block: how many threads they are, which registers they have, and
// where each is in the ring of stages.
#pragma once

#define THREADS ((GROUPS + 1) * GROUP_THREADS)   // the last warpgroup brings, the others multiply

// Blocks on an SM at a time, as far as registers go: two where a thread has few sums.
#define RESIDENT (GROUPS == 1 && BN <= 128 ? 2 : 1)

// A block begins with as many registers for each thread. Of three warpgroups, the one that brings
// gives most of its own back, and the others take them; two have as many as a thread can have.
#define REGISTERS_MOVE (GROUPS == 2)

__device__ __forceinline__ void give_registers_back()
{
#if REGISTERS_MOVE
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#endif
}

__device__ __forceinline__ void take_registers()
{
#if REGISTERS_MOVE
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
#endif
}

// Where a role is: the stage, and the parity of the round that it is in.
struct Place {
    int stage = 0, parity = 0;

    __device__ __forceinline__ void go_on()
    {
        if (++stage == STAGES) { stage = 0; parity ^= 1; }
    }

    __device__ __forceinline__ int before() const { return stage == 0 ? STAGES - 1 : stage - 1; }
};
