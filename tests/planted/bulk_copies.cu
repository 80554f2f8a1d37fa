// One thread brings pieces by bulk copies, 128 use them; mbarriers say "full" and "empty".
#define STAGES 2
#define PIECE 128
#define BYTES (4 * PIECE)
typedef unsigned long long mbarrier;
__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(mbarrier* b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(place(b)), "r"(count) : "memory");
}
__device__ void arrive(mbarrier* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(place(b)) : "memory");
}
__device__ void arrive_and_expect(mbarrier* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(place(b)), "r"(bytes) : "memory");
}
__device__ void wait(mbarrier* b, int parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(place(b)), "r"(parity) : "memory");
}
__device__ void copy(float* to, const float* from, int bytes, mbarrier* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];"
                 :: "r"(place(to)), "l"(from), "r"(bytes), "r"(place(b)) : "memory");
}
extern "C" __global__ void k(const float* x, float* out, int pieces) {
    __shared__ __align__(128) float stage[STAGES][PIECE];
    __shared__ mbarrier full[STAGES], empty[STAGES];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 1);
            init(&empty[s], PIECE);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (t == PIECE) {
        for (int i = 0; i < pieces; ++i) {
            const int s = i % STAGES, round = i / STAGES;
            if (round > 0) wait(&empty[s], (round - 1) & 1);
            arrive_and_expect(&full[s], BYTES);
            copy(stage[s], x + i * PIECE, BYTES, &full[s]);
        }
    } else if (t < PIECE) {
        float sum = 0.0f;
        for (int i = 0; i < pieces; ++i) {
            const int s = i % STAGES, round = i / STAGES;
            wait(&full[s], round & 1);
            sum += (i + 1) * stage[s][PIECE - 1 - t];
            arrive(&empty[s]);
        }
        out[t] = sum;
    }
}
