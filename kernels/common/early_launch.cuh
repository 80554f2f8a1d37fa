// Programmatic dependent launch: the blocks of a launch begin where SMs have room, while the last
// ones of the launch before it on the stream still run.
#pragma once

#ifndef EARLY_LAUNCH
#define EARLY_LAUNCH 1                           // 1: so; 0: when the launch before has ended
#endif

// When all blocks have come here, or ended, the launch after this one may begin.
__device__ __forceinline__ void let_next_begin()
{
#if EARLY_LAUNCH
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The launches before this one have ended: what they wrote is there, and they read nothing more.
__device__ __forceinline__ void wait_for_launch_before()
{
#if EARLY_LAUNCH
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
