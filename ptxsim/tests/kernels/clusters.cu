// Clusters of blocks
// Idea:    small kernels, each of one thing that blocks of a cluster can do with one another, or that
//          blocks of a grid can wait for. Results are integers, or floats that any order adds alike.
// Launch:  as tests/recorded/record_clusters.py says, which records them on a GPU.

typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef u64 mbarrier;
struct __align__(64) TensorMap { char opaque[128]; };
#define KERNEL(blocks) extern "C" __global__ void __cluster_dims__(blocks, 1, 1)
#define PLAIN extern "C" __global__ void

__device__ u32 place(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ u32 rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ u32 size() { u32 r; asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r)); return r; }
__device__ u32 cluster()
{
    u32 r;
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(r));
    return r;
}
__device__ u32 at(u32 address, u32 rank)
{
    u32 r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
    return r;
}
__device__ void sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ void init(mbarrier* b, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(place(b)), "r"(count) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void expect(mbarrier* b, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(place(b)), "r"(bytes) : "memory");
}
__device__ void arrive(u32 b)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                 :: "r"(b) : "memory");
}
__device__ void wait(mbarrier* b, int parity)
{
    u32 done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, "
                     "[%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(place(b)), "r"(parity) : "memory");
}
__device__ void fence() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ void finish()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// --- where a block is -------------------------------------------------------------------------

#define PUT(name) { u32 v; asm volatile("mov.u32 %0, %%" name ";" : "=r"(v)); *to++ = v; }

extern "C" __global__ void __cluster_dims__(2, 2, 2) ranks(u32* out)
{
    u32* to = out + 15 * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
    PUT("clusterid.x") PUT("clusterid.y") PUT("clusterid.z")
    PUT("nclusterid.x") PUT("nclusterid.y") PUT("nclusterid.z")
    PUT("cluster_ctaid.x") PUT("cluster_ctaid.y") PUT("cluster_ctaid.z")
    PUT("cluster_nctaid.x") PUT("cluster_nctaid.y") PUT("cluster_nctaid.z")
    PUT("cluster_ctarank") PUT("cluster_nctarank")
    u32 is;
    asm volatile("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }"
                 : "=r"(is));
    *to = is;
}

// For each rank: its number by the address, in both forms of an address, and what space it is in.
KERNEL(4) addresses(u32* out, u64* raw)
{
    __shared__ int box[8];
    const u32 other = threadIdx.x;
    u64 generic = (u64)&box[3], there;
    u32 far = at(place(&box[3]), other), by_shared, by_generic, in_cta, in_cluster, in_global;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(generic), "r"(other));
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(by_shared) : "r"(far));
    asm volatile("getctarank.u64 %0, %1;" : "=r"(by_generic) : "l"(there));
    asm volatile("{ .reg .pred p; isspacep.shared::cta p, %1; selp.u32 %0, 1, 0, p; }"
                 : "=r"(in_cta) : "l"(there));
    asm volatile("{ .reg .pred p; isspacep.shared::cluster p, %1; selp.u32 %0, 1, 0, p; }"
                 : "=r"(in_cluster) : "l"(there));
    asm volatile("{ .reg .pred p; isspacep.global p, %1; selp.u32 %0, 1, 0, p; }"
                 : "=r"(in_global) : "l"(there));
    u32* to = out + 5 * (blockIdx.x * 4 + other);
    to[0] = by_shared, to[1] = by_generic, to[2] = in_cta, to[3] = in_cluster, to[4] = in_global;
    u64* as = raw + 4 * (blockIdx.x * 4 + other);
    as[0] = place(&box[3]), as[1] = far, as[2] = generic, as[3] = there;
    sync();
}

// --- loads, stores and atomics in another block ----------------------------------------------

KERNEL(4) far_loads(u32* out)
{
    __shared__ __align__(16) u32 box[256];
    const int t = threadIdx.x;
    for (int i = t; i < 256; i += blockDim.x) box[i] = 0x01234567 * (i + 1) + blockIdx.x;
    sync();
    const u32 next = at(place(box), (rank() + 1) % size()), last = at(place(box), size() - 1);
    u32 a, b, c, d;
    u64 wide, second;
    u32* to = out + (blockIdx.x * blockDim.x + t) * 16;
    asm volatile("ld.shared::cluster.u8 %0, [%1];" : "=r"(a) : "r"(next + t) : "memory");
    asm volatile("ld.shared::cluster.s16 %0, [%1];" : "=r"(b) : "r"(next + 2 * t) : "memory");
    asm volatile("ld.volatile.shared::cluster.b32 %0, [%1+64];" : "=r"(c) : "r"(last + 4 * t)
                 : "memory");
    asm volatile("ld.acquire.cluster.shared::cluster.b64 %0, [%1];" : "=l"(wide)
                 : "r"(last + 8 * t) : "memory");
    to[0] = a, to[1] = b, to[2] = c, to[3] = (u32)wide, to[4] = (u32)(wide >> 32);
    asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(next + 16 * (t % 16)) : "memory");
    to[5] = a, to[6] = b, to[7] = c, to[8] = d;
    asm volatile("ld.shared::cluster.v2.u64 {%0, %1}, [%2];" : "=l"(wide), "=l"(second)
                 : "r"(place(box) + 16 * (t % 16)) : "memory");    // the own block's
    to[9] = (u32)wide, to[10] = (u32)second;
    u64 there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"((u64)&box[t]), "r"((rank() + t) % 4));
    to[11] = *(volatile u32*)there;
    asm volatile("ld.relaxed.cluster.b32 %0, [%1];" : "=r"(a) : "l"(there) : "memory");
    to[12] = a;
    sync();
}

KERNEL(8) far_stores(u32* out)
{
    __shared__ __align__(16) u32 box[8][64];
    const u32 t = threadIdx.x, own = rank();
    for (int i = t; i < 512; i += blockDim.x) box[0][i] = 0xABABABAB;
    sync();
    const u32 other = t % 8, i = t / 8;
    const u32 there = at(place(&box[own][0]), other);
    const u32 value = 0x00010001 * (own * 64 + t) + blockIdx.x * 0x01000000;
    if (i == 0) asm volatile("st.shared::cluster.u8 [%0], %1;" :: "r"(there), "r"(value) : "memory");
    if (i == 1) asm volatile("st.shared::cluster.b16 [%0+6], %1;"
                             :: "r"(there), "h"((u16)value) : "memory");
    if (i == 2) asm volatile("st.release.cluster.shared::cluster.b32 [%0+8], %1;"
                             :: "r"(there), "r"(value) : "memory");
    if (i == 3) asm volatile("st.shared::cluster.b64 [%0+16], %1;"
                             :: "r"(there), "l"((u64)value << 7) : "memory");
    if (i == 4) asm volatile("st.shared::cluster.v4.b32 [%0+32], {%1, %1, %2, %1};"
                             :: "r"(there), "r"(value), "r"(~value) : "memory");
    if (i == 5) asm volatile("st.shared::cluster.v2.b32 [%0+48], {%1, %2};"
                             :: "r"(there), "r"(value), "r"(~value) : "memory");
    if (i == 6) {
        u64 far;
        asm volatile("mapa.u64 %0, %1, %2;" : "=l"(far) : "l"((u64)&box[own][15]), "r"(other));
        *(volatile u32*)far = value;
    }
    sync();
    for (int i = t; i < 512; i += blockDim.x) out[blockIdx.x * 512 + i] = box[0][i];
}

#define ATOM(i, op, type, reg, value)                                                           \
    { reg v = (value), old;                                                                     \
      asm volatile("atom.relaxed.cluster.shared::cluster." op " %0, [%1], %2;"                  \
                   : "=" type(old) : "r"(first + 8 * (i)), type(v) : "memory"); }
#define RED(i, op, type, reg, value)                                                            \
    { reg v = (value);                                                                          \
      asm volatile("red.relaxed.cluster.shared::cluster." op " [%0], %1;"                       \
                   :: "r"(first + 8 * (i)), type(v) : "memory"); }

KERNEL(4) far_atomics(u64* out)
{
    __shared__ u64 sums[24];
    const u32 t = threadIdx.x, id = blockIdx.x * blockDim.x + t;
    if (t < 24) sums[t] = t == 4 ? ~0ull : 0;
    sync();
    const u32 first = at(place(sums), 1);
    ATOM(0, "add.u32", "r", u32, id)
    ATOM(1, "add.u64", "l", u64, (u64)id << 20)
    ATOM(2, "max.u32", "r", u32, id * 2654435761u)
    ATOM(3, "min.s32", "r", u32, id * 2654435761u)
    ATOM(4, "and.b32", "r", u32, ~(1u << id % 32) | id)
    ATOM(6, "xor.b32", "r", u32, id * 2654435761u)
    ATOM(7, "inc.u32", "r", u32, 17)
    ATOM(8, "dec.u32", "r", u32, 1000)
    ATOM(9, "add.f32", "f", float, (float)(id % 7))
    RED(12, "add.u32", "r", u32, id + 5)
    RED(13, "add.s32", "r", u32, 3 - (int)id)
    RED(17, "add.f32", "f", float, 0.5f * (id % 9))
    u32 old = 1;
    if (rank() != 1 && t == 0)
        while (old)        // a lock in the block of rank 1
            asm volatile("atom.acquire.cluster.shared::cluster.cas.b32 %0, [%1], 0, 1;"
                         : "=r"(old) : "r"(first + 8 * 20) : "memory");
    if (rank() != 1 && t == 0) {
        u32 v;
        asm volatile("ld.relaxed.cluster.shared::cluster.u32 %0, [%1];" : "=r"(v)
                     : "r"(first + 8 * 21) : "memory");
        asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], %1;"
                     :: "r"(first + 8 * 21), "r"(v + 1 + rank()) : "memory");
        asm volatile("st.release.cluster.shared::cluster.u32 [%0], 0;"
                     :: "r"(first + 8 * 20) : "memory");
    }
    sync();
    if (rank() == 1 && t < 24) out[cluster() * 24 + t] = sums[t];
}

// --- barriers -----------------------------------------------------------------------------------

// Half of each warp has another instruction; some threads have returned; work between the halves.
KERNEL(4) barriers(u32* out)
{
    __shared__ u32 seen[4];
    const u32 t = threadIdx.x, own = rank();
    if (t < 4) seen[t] = 0;
    sync();
    if (t >= 96) return;        // a warp that is gone is not waited for
    if (t == 0) {
        asm volatile("st.shared::cluster.u32 [%0], %1;"
                     :: "r"(at(place(&seen[own]), (own + 1) % 4)), "r"(own + 10) : "memory");
    }
    if (t % 2)
        asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    else
        asm volatile("barrier.cluster.arrive;" ::: "memory");
    const u32 between = t * t;
    if (t % 2)
        asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    else
        asm volatile("barrier.cluster.wait;" ::: "memory");
    out[(blockIdx.x * 96 + t) * 2] = seen[(own + 3) % 4] + between;
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    out[(blockIdx.x * 96 + t) * 2 + 1] = seen[own];
}

// Everyone arrives at the mbarrier of rank 0, which then passes the word on, round by round.
KERNEL(4) far_arrivals(u32* out)
{
    __shared__ mbarrier full, go;
    __shared__ u32 given[4];
    const u32 t = threadIdx.x, own = rank();
    if (t == 0) { init(&full, 4 * 32 + 4 * 3); init(&go, 1); }
    sync();
    for (int round = 0; round < 5; ++round) {
        if (t < 32) {
            if (t == 0)
                asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(at(place(&given[own]), 0)),
                             "r"(own * 100 + round) : "memory");
            __syncwarp();
            arrive(at(place(&full), 0));
            if (t == 5)
                asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0], 3;"
                             :: "r"(at(place(&full), 0)) : "memory");
        }
        if (own == 0 && t == 0) {
            wait(&full, round % 2);
            u32 sum = 0;
            for (int i = 0; i < 4; ++i) sum += given[i];
            for (int i = 0; i < 4; ++i) {
                asm volatile("st.shared::cluster.u32 [%0], %1;"
                             :: "r"(at(place(&given[3]), i)), "r"(sum) : "memory");
                arrive(at(place(&go), i));
            }
        }
        wait(&go, round % 2);
        out[(blockIdx.x * 5 + round) * blockDim.x + t] = given[3];
        sync();
    }
}

// Announcing bytes to, and completing them in, the mbarrier of the next block.
KERNEL(2) far_bytes(u32* out)
{
    __shared__ mbarrier full;
    const u32 t = threadIdx.x;
    if (t == 0) init(&full, 2);
    sync();
    if (t == 0) {
        const u32 there = at(place(&full), 1 - rank());
        asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], 48;"
                     :: "r"(there) : "memory");
        asm volatile("mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%0], 16;"
                     :: "r"(there) : "memory");
        asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 40;"
                     :: "r"(there) : "memory");
        asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 24;"
                     :: "r"(there) : "memory");
        u64 state;
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state)
                     : "r"(place(&full)) : "memory");
    }
    wait(&full, 0);
    out[blockIdx.x * blockDim.x + t] = 7;
    sync();
}

// --- stores that tell an mbarrier ---------------------------------------------------------------

KERNEL(4) async_stores(u32* out)
{
    __shared__ __align__(16) u32 box[512];
    __shared__ mbarrier full;
    const u32 t = threadIdx.x, own = rank();
    for (int i = t; i < 512; i += blockDim.x) box[i] = 0xABABABAB;
    if (t == 0) { init(&full, 1); expect(&full, 4 * 64 + 8 * 32 + 8 * 32 + 16 * 16 + 16 * 8); }
    sync();
    const u32 next = (own + 1) % 4, there = at(place(box), next), told = at(place(&full), next);
    const u32 value = blockIdx.x * 0x10000 + t;
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                 :: "r"(there + 4 * t), "r"(value), "r"(told) : "memory");
    if (t < 32)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [%0], %1, [%2];"
                     :: "r"(there + 256 + 8 * t), "l"((u64)value << 9), "r"(told) : "memory");
    if (t < 32)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.s32 "
                     "[%0+512], {%1, %2}, [%3];"
                     :: "r"(there + 8 * t), "r"(value), "r"(~value), "r"(told) : "memory");
    if (t < 16)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
                     "[%0], {%1, %2, %1, %2}, [%3];" :: "r"(there + 768 + 16 * t),
                     "f"((float)t), "f"(0.5f), "r"(told) : "memory");
    if (t < 8)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 "
                     "[%0], {%1, %2}, [%3];" :: "r"(there + 1024 + 16 * t),
                     "l"((u64)value), "l"(~0ull - value), "r"(told) : "memory");
    wait(&full, 0);
    for (int i = t; i < 512; i += blockDim.x) out[blockIdx.x * 512 + i] = box[i];
    sync();
}

#define RED_ASYNC(i, op, type, value)                                                            \
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes." op    \
                 " [%0], %1, [%2];" :: "r"(there + 8 * (i)), type(value), "r"(told) : "memory");

KERNEL(2) async_reductions(u64* out)
{
    __shared__ u64 box[16];
    __shared__ mbarrier full;
    const u32 t = threadIdx.x, id = blockIdx.x * blockDim.x + t;
    if (t < 16) box[t] = t == 5 ? ~0ull : t == 3 ? 1000 : 0;
    if (t == 0) { init(&full, 1); expect(&full, blockDim.x * (10 * 4 + 8)); }
    sync();
    const u32 there = at(place(box), 1 - rank()), told = at(place(&full), 1 - rank());
    RED_ASYNC(0, "inc.u32", "r", 40u)
    RED_ASYNC(1, "dec.u32", "r", 1000u)
    RED_ASYNC(2, "max.u32", "r", id * 2654435761u)
    RED_ASYNC(3, "min.u32", "r", id + 5)
    RED_ASYNC(4, "add.u32", "r", id)
    RED_ASYNC(5, "and.b32", "r", ~(1u << id % 29))
    RED_ASYNC(6, "or.b32", "r", 1u << id % 31)
    RED_ASYNC(7, "xor.b32", "r", id * 2654435761u)
    RED_ASYNC(8, "max.s32", "r", (u32)(id * 2654435761u))
    RED_ASYNC(9, "add.s32", "r", 3 - (int)id)
    RED_ASYNC(10, "add.u64", "l", (u64)id << 31)
    wait(&full, 0);
    if (t < 16) out[blockIdx.x * 16 + t] = box[t];
    sync();
}

// --- copies that reach other blocks -------------------------------------------------------------

KERNEL(4) far_copy(u32* out)
{
    __shared__ __align__(128) u32 from[256], to[256];
    __shared__ mbarrier full;
    const u32 t = threadIdx.x, own = rank();
    for (int i = t; i < 256; i += blockDim.x) from[i] = blockIdx.x * 1000 + i, to[i] = 0xABABABAB;
    if (t == 0) { init(&full, 1); expect(&full, 512 + 16 * 4); }
    fence();
    sync();
    if (t < 4) {
        const u32 next = (own + 1) % 4;
        if (t == 0)
            asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                         "[%0], [%1], 512, [%2];"
                         :: "r"(at(place(to), next)), "r"(place(from) + 64),
                            "r"(at(place(&full), next)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                     "[%0], [%1], 16, [%2];"
                     :: "r"(at(place(to + 128 + 4 * own), t)), "r"(place(from + 4 * t)),
                        "r"(at(place(&full), t)) : "memory");
    }
    wait(&full, 0);
    for (int i = t; i < 256; i += blockDim.x) out[blockIdx.x * 256 + i] = to[i];
    sync();
}

// Each block has a part brought to some blocks, itself among them or not.
KERNEL(4) shared_stretches(const u32* in, u32* out)
{
    __shared__ __align__(128) u32 box[4][64];
    __shared__ mbarrier full;
    const u32 t = threadIdx.x, own = rank();
    for (int i = t; i < 256; i += blockDim.x) box[0][i] = 0xABABABAB;
    const u32 masks[4] = {0xF, 0x5, 0x8, 0xE};
    u32 bytes = 0;
    for (int i = 0; i < 4; ++i) bytes += masks[i] >> own & 1 ? 256 : 0;
    if (t == 0) { init(&full, 1); expect(&full, bytes); }
    fence();
    sync();
    if (t == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                     ".multicast::cluster [%0], [%1], 256, [%2], %3;"
                     :: "r"(place(box[own])), "l"(in + 64 * blockIdx.x), "r"(place(&full)),
                        "h"((u16)masks[own]) : "memory");
    wait(&full, 0);
    for (int i = t; i < 256; i += blockDim.x) out[blockIdx.x * 256 + i] = box[0][i];
    sync();
}

// Half a box from each of two blocks, to both; and a whole one with a hint for the cache.
KERNEL(2) shared_boxes(const __grid_constant__ TensorMap map, u32* out)
{
    extern __shared__ __align__(1024) u32 memory[];
    __shared__ mbarrier full;
    const u32 t = threadIdx.x, own = rank();
    for (int i = t; i < 1024; i += blockDim.x) memory[i] = 0xABABABAB;
    if (t == 0) { init(&full, 1); expect(&full, 3 * 1024); }
    fence();
    sync();
    if (t == 0) {
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], "
                     "%5;" :: "r"(place(memory + 256 * own)), "l"(&map), "r"(32 * (int)own - 4),
                     "r"((int)cluster() * 8), "r"(place(&full)), "h"((u16)3) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
                     "[%0], [%1, {%2, %3}], [%4], %5, %6;"
                     :: "r"(place(memory + 512)), "l"(&map), "r"(8), "r"((int)blockIdx.x * 8 - 3),
                     "r"(place(&full)), "h"((u16)(1 << own)), "l"(0x14F0000000000000ull)
                     : "memory");
    }
    wait(&full, 0);
    for (int i = t; i < 1024; i += blockDim.x) out[blockIdx.x * 1024 + i] = memory[i];
    sync();
}

// A ring of two stages: each block brings half of every piece to both, and both must have let go.
KERNEL(2) ring(const float* in, float* out, int pieces)
{
    __shared__ __align__(128) float stage[2][128];
    __shared__ mbarrier full[2], empty[2];
    const u32 t = threadIdx.x, own = rank();
    if (t == 0)
        for (int s = 0; s < 2; ++s) { init(&full[s], 1); init(&empty[s], 2); }
    sync();
    const float* from = in + cluster() * pieces * 128;
    if (t == 128) {
        for (int i = 0; i < pieces; ++i) {
            const int s = i % 2;
            wait(&empty[s], i / 2 % 2 ^ 1);
            expect(&full[s], 512);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                         ".multicast::cluster [%0], [%1], 256, [%2], 3;"
                         :: "r"(place(stage[s] + 64 * own)), "l"(from + i * 128 + 64 * own),
                            "r"(place(&full[s])) : "memory");
        }
    } else if (t < 128) {
        float sum = 0.0f;
        for (int i = 0; i < pieces; ++i) {
            const int s = i % 2;
            wait(&full[s], i / 2 % 2);
            sum += (i + 1 + own) * stage[s][127 - t];
            asm volatile("bar.sync 1, 128;" ::: "memory");
            if (t < 2) arrive(at(place(&empty[s]), t));
        }
        out[blockIdx.x * 128 + t] = sum;
    }
    sync();
}

// --- policies of the cache ------------------------------------------------------------------------

PLAIN policies(const float* in, float* out, u64* raw)
{
    u64 p[6];
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p[0]));
    asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, 0.5;"
                 : "=l"(p[1]));
    asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0;" : "=l"(p[2]));
    asm volatile("createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %0, [%1], 256, 512;"
                 : "=l"(p[3]) : "l"(in));
    asm volatile("createpolicy.cvt.L2.b64 %0, 0x100000;" : "=l"(p[4]));
    p[5] = 0x12F0000000000000ull;
    float a, b, c, d, e;
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(a)
                 : "l"(in + threadIdx.x), "l"(p[0]) : "memory");
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(b), "=f"(c), "=f"(d), "=f"(e) : "l"(in + 4 * threadIdx.x), "l"(p[1])
                 : "memory");
    asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;"
                 :: "l"(out + threadIdx.x), "f"(a + b + c * 2 + d * 3 + e * 4), "l"(p[2]) : "memory");
    asm volatile("red.global.add.L2::cache_hint.f32 [%0], %1, %2;"
                 :: "l"(out + 64 + threadIdx.x), "f"(a), "l"(p[0]) : "memory");
    u32 old;
    asm volatile("atom.global.add.L2::cache_hint.u32 %0, [%1], %2, %3;"
                 : "=r"(old) : "l"(out + 128), "r"(1), "l"(p[0]) : "memory");
    if (threadIdx.x == 0)
        for (int i = 0; i < 6; ++i) raw[i] = i == 3 ? 0 : p[i];    // an address is in it
}

// --- tensor maps in global memory -----------------------------------------------------------------

PLAIN maps_in_memory(const TensorMap* maps, u32* out)
{
    __shared__ __align__(128) u32 box[64];
    __shared__ mbarrier full;
    const u32 t = threadIdx.x;
    const TensorMap* own = maps + blockIdx.x;
    if (t == 0) {
        init(&full, 1);
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(own) : "memory");
        expect(&full, 256);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(place(box)), "l"(own), "r"(4), "r"(1), "r"(place(&full)) : "memory");
    }
    __syncthreads();
    wait(&full, 0);
    out[blockIdx.x * 64 + t] = box[t];
}

// --- blocks that wait for one another ---------------------------------------------------------------

// A lock by atomicCAS around a read, a change and a write.
PLAIN locked(int* lock, u64* value, u32* order)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) { }
        __threadfence();
        volatile u64* v = value;
        const u64 old = *v;
        *v = old + blockIdx.x + 1;
        __threadfence();
        atomicExch(lock, 0);
        order[blockIdx.x] = 1;
    }
}

// Each thread of a warp takes the lock in its turn.
PLAIN lock_in_warp(int* lock, int* value)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile int*)value = *(volatile int*)value + 1 + threadIdx.x;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// Blocks go on in the reverse order of their numbers: the last one first.
PLAIN in_turn(volatile int* turn, int* out)
{
    __shared__ int seen;
    if (threadIdx.x == 0) {
        while (*turn != (int)(gridDim.x - 1 - blockIdx.x)) __nanosleep(20);
        seen = *turn;
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = seen * 1000 + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        *turn = seen + 1;
    }
}

__device__ void grid_barrier(u32* arrived, u32 generation)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        u32 seen;
        do {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
        } while (seen < (generation + 1) * gridDim.x);
    }
    __syncthreads();
}

// Steps of a stencil with a barrier of the whole grid between them.
PLAIN steps(u32* a, u32* b, u32* arrived, int rounds)
{
    const u32 n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    u32 *from = a, *to = b;
    for (int round = 0; round < rounds; ++round) {
        to[i] = __ldcg(&from[i]) + 3 * __ldcg(&from[(i + 1) % n]) + __ldcg(&from[(i + n - 1) % n]);
        grid_barrier(arrived, round);
        u32* swap = from; from = to; to = swap;
    }
}

// Sums of all before: each block looks back at those before it until one knows its whole sum.
PLAIN look_back(const u32* in, u32* out, u32* ticket, volatile u64* state)
{
    __shared__ u32 block, before, own[128];
    const u32 t = threadIdx.x;
    if (t == 0) block = gridDim.x - 1 - atomicAdd(ticket, 1);
    if (t == 0) block = gridDim.x - 1 - block;
    __syncthreads();
    const u32 mine = in[block * 128 + t];
    own[t] = mine;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        const u32 add = t >= d ? own[t - d] : 0;
        __syncthreads();
        own[t] += add;
        __syncthreads();
    }
    if (t == 0) {
        const u32 total = own[127];
        u32 sum = 0;
        state[block] = (u64)1 << 32 | total;        // 1: the sum of the block alone, 2: of all
        for (int i = (int)block - 1; i >= 0; --i) {
            u64 seen;
            while ((seen = state[i]) >> 32 == 0) { }
            sum += (u32)seen;
            if (seen >> 32 == 2) break;
        }
        state[block] = (u64)2 << 32 | (sum + total);
        before = sum;
    }
    __syncthreads();
    out[block * 128 + t] = before + own[t];
}

// A semaphore for each column of parts: part i adds after part i - 1 (split-K in order).
PLAIN in_order(const float* in, float* out, int* flag, int parts)
{
    const int part = parts - 1 - blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
    const float mine = in[part * gridDim.x * blockDim.x + i];
    if (threadIdx.x == 0) {
        int seen;
        do asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(seen) : "l"(flag + blockIdx.x)
                        : "memory");
        while (seen != part);
    }
    __syncthreads();
    out[i] = part ? __ldcg(out + i) * 0.75f + mine : mine;
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("red.release.gpu.global.add.s32 [%0], 1;" :: "l"(flag + blockIdx.x) : "memory");
}

// One warp tells another by a flag in shared memory.
PLAIN flag_in_block(int* out)
{
    __shared__ volatile int flag, value;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        while (flag == 0) { }
        __threadfence_block();
        out[threadIdx.x] = value + threadIdx.x;
    } else {
        if (threadIdx.x == 32) {
            value = 5;
            __threadfence_block();
            flag = 1;
        }
    }
}
