// Where a producer or a consumer is in a pipeline of STAGES stages.
#pragma once

struct PipelineState {
    int stage = 0, parity = 0;                   // parity: of this round's phases

    __device__ __forceinline__ void advance()
    {
        if (++stage == STAGES) { stage = 0; parity ^= 1; }
    }

    __device__ __forceinline__ int previous() const { return stage == 0 ? STAGES - 1 : stage - 1; }
};
