// Pieces come by cp.async into three stages; a thread copies one element and reads another's.
#define STAGES 3
#define PIECE 128
__device__ void copy(float* to, const float* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ void wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}
extern "C" __global__ void k(const float* x, float* out, int pieces) {
    __shared__ float stage[STAGES][PIECE];
    const int t = threadIdx.x;
    for (int i = 0; i < STAGES - 1; ++i) {
        if (i < pieces) copy(&stage[i][t], x + i * PIECE + t);
        commit();
    }
    float sum = 0.0f;
    for (int i = 0; i < pieces; ++i) {
        wait<STAGES - 2>();
        __syncthreads();
        const int next = i + STAGES - 1;
        if (next < pieces) copy(&stage[next % STAGES][t], x + next * PIECE + t);
        commit();
        sum += (i + 1) * stage[i % STAGES][PIECE - 1 - t];
    }
    out[t] = sum;
}
