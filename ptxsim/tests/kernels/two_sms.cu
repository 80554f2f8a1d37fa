// C (256 x 64) = A (256 x K) B (64 x K)^T, bf16: the two blocks of a cluster multiply together.
// Each loads half of the rows of A and of B, and tells the even block's mbarrier.
#include <cuda_bf16.h>

typedef unsigned long long u64;
struct __align__(64) Map { char opaque[128]; };

__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void wait(const u64* mbarrier, int parity)
{
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;"
                 " @!p bra again; }" :: "r"(place(mbarrier)), "r"(parity) : "memory");
}

__device__ void load(const void* to, const Map* map, int k, int row, unsigned mbarrier)
{
    asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(place(to)), "l"(map), "r"(k), "r"(row), "r"(mbarrier) : "memory");
}

__device__ u64 descriptor(const void* tile, int k)
{
    return (u64)((place(tile) + 32 * k) >> 4) | 64ull << 32 | 1ull << 46 | 2ull << 61;
}

extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(128) two_sms(
    const __grid_constant__ Map a_map, const __grid_constant__ Map b_map, float* C, int K)
{
    __shared__ __align__(1024) unsigned char a[2][128 * 128], b[2][32 * 128];
    __shared__ __align__(8) u64 full[2], empty[2], done;
    __shared__ unsigned base;
    const int t = threadIdx.x, warp = t / 32, rank = blockIdx.x % 2, steps = K / 64;
    if (warp == 0) {
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 64;"
                     :: "r"(place(&base)) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
    }
    if (t == 0) {
        for (u64* each : {full, full + 1, empty, empty + 1, &done})
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(place(each)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    const unsigned sums = base;
    if (t == 0) {  // loads
        for (int step = 0; step < steps; ++step) {
            const int stage = step % 2;
            if (step >= 2) wait(empty + stage, (step / 2 - 1) % 2);
            unsigned even;
            asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(even) : "r"(place(full + stage)));
            if (rank == 0)
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                             :: "r"(place(full + stage)), "r"(2 * (128 + 32) * 128) : "memory");
            load(a[stage], &a_map, 64 * step, 128 * rank, even);
            load(b[stage], &b_map, 64 * step, 32 * rank, even);
        }
    } else if (t == 32 && rank == 0) {  // multiplies, for both
        const unsigned form = 1 << 4 | 1 << 7 | 1 << 10 | (64 >> 3) << 17 | (256 >> 4) << 24;
        for (int step = 0; step < steps; ++step) {
            const int stage = step % 2;
            wait(full + stage, step / 2 % 2);
            for (int k = 0; k < 4; ++k)
                asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;"
                             " tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }"
                             :: "r"(sums), "l"(descriptor(a[stage], k)),
                                "l"(descriptor(b[stage], k)), "r"(form), "r"(step + k) : "memory");
            asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
                         ".multicast::cluster.b64 [%0], %1;"
                         :: "r"(place(empty + stage)), "h"((short)3) : "memory");
        }
        asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
                     ".multicast::cluster.b64 [%0], %1;"
                     :: "r"(place(&done)), "h"((short)3) : "memory");
    }
    __syncwarp();
    wait(&done, 0);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    for (int n = 0; n < 64; ++n) {
        unsigned sum;
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];"
                     : "=r"(sum) : "r"(sums + n + (warp << 21)));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        C[(128 * rank + t) * 64 + n] = __uint_as_float(sum);
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (warp == 0)
        asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;" :: "r"(sums));
}
