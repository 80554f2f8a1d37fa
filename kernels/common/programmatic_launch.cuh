// Programmatic dependent launch: the blocks of a launch begin where SMs have room, while the last
// ones of the launch before it on the stream still run.
#pragma once

#ifndef EARLY_LAUNCH
#define EARLY_LAUNCH 1           // 0: a launch begins when the one before it has ended
#endif

// The next launch may begin when all blocks have called this, or ended.
__device__ __forceinline__ void trigger_next_launch()
{
#if EARLY_LAUNCH
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Wait until the launches before this one have ended and what they wrote is visible.
__device__ __forceinline__ void wait_for_previous_launch()
{
#if EARLY_LAUNCH
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
