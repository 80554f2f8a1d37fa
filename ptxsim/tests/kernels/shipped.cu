// Mistakes of published kernels, each in a small kernel of its own, written from its description.
// With MENDED the kernel is right. docs/shipped.md has where each was found.

typedef unsigned u32;
typedef unsigned long long u64;

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ void init(u32 bar, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void expect(u32 bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(bar), "r"(bytes) : "memory");
}
__device__ void arrive(u32 bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
}
__device__ void wait(u32 bar, int parity)
{
    asm volatile("{ .reg .pred done; again: "
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }"
                 :: "r"(bar), "r"(parity) : "memory");
}
__device__ void copy(u32 to, const void* from, int bytes, u32 bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" :: "r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}

// --- products of 64×8 by 16 of k, float16, without a swizzle -------------------------------------

typedef unsigned short Half;
#define A_BYTES (64 * 16 * 2)
#define B_BYTES (8 * 16 * 2)

// Of pieces of 8×16 bytes: those along k are `along` bytes apart, those down the rows `down`.
__device__ u64 descriptor(u32 address, int along, int down)
{
    return address >> 4 | (u64)(along >> 4) << 16 | (u64)(down >> 4) << 32;
}
__device__ void multiply(float (&d)[4], u32 a, u32 b)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
                 "{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(descriptor(a, 64 * 16, 128)), "l"(descriptor(b, 8 * 16, 128)));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ void wait_for_product() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

// A thread waits for its own copies; the product reads those of all threads.
extern "C" __global__ void own_copies(const Half* A, const Half* B, float* C)
{
    __shared__ __align__(128) char a[A_BYTES], b[B_BYTES];
    const int t = threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(shared_address(a) + t * 16), "l"((const char*)A + t * 16) : "memory");
    if (t < 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     :: "r"(shared_address(b) + t * 16), "l"((const char*)B + t * 16) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
#ifdef MENDED
    fence_shared();
    __syncthreads();
#endif
    float d[4] = {};
    multiply(d, shared_address(a), shared_address(b));
    wait_for_product();
    for (int i = 0; i < 4; ++i) C[t * 4 + i] = d[i];
}

// The product begins before the copy of A is there: the wait is behind it (LATE), or is missing.
extern "C" __global__ void waited_too_late(const Half* A, const Half* B, float* C)
{
    __shared__ __align__(128) char a[A_BYTES], b[B_BYTES];
    __shared__ u64 full_a, full_b;
    if (threadIdx.x == 0) {
        init(shared_address(&full_a), 1);
        init(shared_address(&full_b), 1);
        fence_init();
        expect(shared_address(&full_a), A_BYTES);
        copy(shared_address(a), A, A_BYTES, shared_address(&full_a));
        expect(shared_address(&full_b), B_BYTES);
        copy(shared_address(b), B, B_BYTES, shared_address(&full_b));
    }
    __syncthreads();
    float d[4] = {};
    wait(shared_address(&full_b), 0);
#ifdef MENDED
    wait(shared_address(&full_a), 0);
#endif
    multiply(d, shared_address(a), shared_address(b));
    wait_for_product();
#ifdef LATE
    wait(shared_address(&full_a), 0);
#endif
    for (int i = 0; i < 4; ++i) C[threadIdx.x * 4 + i] = d[i];
}

// Two warpgroups multiply one tile of B; the producer waits for the first of them alone.
#ifdef MENDED
#define READERS 2
#else
#define READERS 1
#endif
extern "C" __global__ void overwritten(const Half* A, const Half* B, float* C, int steps)
{
    __shared__ __align__(128) char a[2][A_BYTES], b[B_BYTES];
    __shared__ u64 full, empty;
    const int group = threadIdx.x / 128, t = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        init(shared_address(&full), 1);
        init(shared_address(&empty), READERS);
        fence_init();
    }
    for (int i = threadIdx.x; i < 2 * A_BYTES / 4; i += blockDim.x)
        ((u32*)a)[i] = ((const u32*)A)[i % (A_BYTES / 4)];
    fence_shared();
    __syncthreads();
    if (group == 2) {
        for (int step = 0; t == 0 && step < steps; ++step) {
            if (step) wait(shared_address(&empty), (step - 1) % 2);
            expect(shared_address(&full), B_BYTES);
            copy(shared_address(b), B, B_BYTES, shared_address(&full));
        }
        return;
    }
    float d[4] = {};
    for (int step = 0; step < steps; ++step) {
        wait(shared_address(&full), step % 2);
        multiply(d, shared_address(a[group]), shared_address(b));
        wait_for_product();
        if (t == 0 && group < READERS) arrive(shared_address(&empty));
    }
    for (int i = 0; i < 4; ++i) C[(group * 128 + t) * 4 + i] = d[i];
}

// --- fences between the proxies ------------------------------------------------------------------

// Threads write to shared memory, a bulk copy stores it.
extern "C" __global__ void stored_unfenced(float* out)
{
    __shared__ __align__(16) float buffer[128];
    buffer[threadIdx.x] = threadIdx.x;
#ifdef MENDED
    fence_shared();
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;"
                     :: "l"(out), "r"(shared_address(buffer)) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// An mbarrier is initialised, and at once a copy is to tell it.
extern "C" __global__ void init_unfenced(const float* x, float* out)
{
    __shared__ __align__(16) float buffer[128];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        init(shared_address(&full), 1);
#ifdef MENDED
        fence_init();
#endif
        expect(shared_address(&full), 512);
        copy(shared_address(buffer), x, 512, shared_address(&full));
    }
    __syncthreads();
    wait(shared_address(&full), 0);
    out[threadIdx.x] = buffer[threadIdx.x];
}

// A block polls a flag by ordinary loads, and then has the copy engine load what the flag is about.
extern "C" __global__ void polled_unfenced(float* data, int* flag, float* out)
{
    __shared__ __align__(16) float buffer[128];
    __shared__ u64 full;
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x;
        __syncthreads();
        if (threadIdx.x == 0)
            asm volatile("st.release.gpu.global.s32 [%0], 1;" :: "l"(flag) : "memory");
        return;
    }
    if (threadIdx.x == 0) {
        init(shared_address(&full), 1);
        fence_init();
        int seen = 0;
        while (!seen)
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
#ifdef MENDED
        asm volatile("fence.proxy.async;" ::: "memory");
#endif
        expect(shared_address(&full), 512);
        copy(shared_address(buffer), data, 512, shared_address(&full));
    }
    __syncthreads();
    wait(shared_address(&full), 0);
    out[threadIdx.x] = buffer[threadIdx.x];
}

// Four warps read a stage, and tell the fifth, which has the next tile copied into it.
extern "C" __global__ void refilled(const float* x, float* out, int steps)
{
    __shared__ __align__(16) float stage[2][128];
    __shared__ u64 full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) {
            init(shared_address(&full[s]), 1);
            init(shared_address(&empty[s]), 4);
        }
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x >= 128) {
        for (int step = 0; threadIdx.x == 128 && step < steps; ++step) {
            const int s = step % 2;
            if (step >= 2) wait(shared_address(&empty[s]), (step / 2 - 1) % 2);
#ifdef MENDED
            fence_shared();
#endif
            expect(shared_address(&full[s]), 512);
            copy(shared_address(stage[s]), x + step * 128, 512, shared_address(&full[s]));
        }
        return;
    }
    float sum = 0;
    for (int step = 0; step < steps; ++step) {
        wait(shared_address(&full[step % 2]), step / 2 % 2);
        sum += stage[step % 2][threadIdx.x];
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(shared_address(&empty[step % 2]));
    }
    out[threadIdx.x] = sum;
}

// A warp reads a row in one stage while the next row is copied into the other one.
extern "C" __global__ void refilled_by_its_reader(const float* x, float* out, int rows)
{
    __shared__ __align__(16) float stage[2][32];
    __shared__ u64 full[2];
    if (threadIdx.x == 0) {
        init(shared_address(&full[0]), 1);
        init(shared_address(&full[1]), 1);
        fence_init();
    }
    float sum = 0;
    for (int row = -1; row < rows; ++row) {
        if (threadIdx.x == 0 && row + 1 < rows) {
            const int s = (row + 1) % 2;
            expect(shared_address(&full[s]), 128);
            copy(shared_address(stage[s]), x + (row + 1) * 32, 128, shared_address(&full[s]));
        }
        __syncwarp();
        if (row < 0) continue;
        wait(shared_address(&full[row % 2]), row / 2 % 2);
        sum += stage[row % 2][threadIdx.x];
#ifdef MENDED
        fence_shared();
#endif
        __syncwarp();
    }
    out[threadIdx.x] = sum;
}

// --- barriers ------------------------------------------------------------------------------------

// Four warps of twelve have a barrier to themselves, and it is that of all twelve.
extern "C" __global__ void some_warps(float* out)
{
    __shared__ float part[128];
    if (threadIdx.x < 128) {
        part[threadIdx.x] = threadIdx.x;
#ifdef MENDED
        asm volatile("bar.sync 1, 128;" ::: "memory");
#else
        __syncthreads();
#endif
        out[threadIdx.x] = part[127 - threadIdx.x];
    }
    for (int i = threadIdx.x; i < 256; i += blockDim.x) out[128 + i] = i;
    __syncthreads();
}

// Two blocks of a cluster release a stage to each other in each step, and one has more steps.
extern "C" __global__ void __cluster_dims__(2) unequal_depths(const int* steps, float* out)
{
    __shared__ u64 empty[2];  // in turn: the other block may be a step ahead
    int most = steps[blockIdx.x];
#ifdef MENDED
    most = max(steps[0], steps[1]);
#endif
    if (threadIdx.x == 0) {
        init(shared_address(&empty[0]), 1);
        init(shared_address(&empty[1]), 1);
        fence_init();
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    float sum = 0;
    for (int step = 0; step < most; ++step) {
        if (step < steps[blockIdx.x]) sum += step;
        if (threadIdx.x == 0)
            asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
                         "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
                         :: "r"(shared_address(&empty[step % 2])), "r"(1 - blockIdx.x) : "memory");
        wait(shared_address(&empty[step % 2]), step / 2 % 2);
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// --- tensor maps ---------------------------------------------------------------------------------

struct __align__(128) Map { char opaque[128]; };

// One map in global memory serves several groups, one after the other, and is changed for the next
// one while the copy engine may still read it.
extern "C" __global__ void map_in_use(const __grid_constant__ Map map, Map* changed,
                                      const float* x, float* out, int groups)
{
    __shared__ __align__(128) float box[2][4][32];
    __shared__ __align__(128) Map local;
    __shared__ u64 full[2];
    if (threadIdx.x == 0) {
        init(shared_address(&full[0]), 1);
        init(shared_address(&full[1]), 1);
        fence_init();
    }
    ((u32*)&local)[threadIdx.x] = ((const u32*)&map)[threadIdx.x];
    __syncwarp();
    for (int group = 0; group < groups; ++group) {
#ifdef MENDED
        if (group) wait(shared_address(&full[(group - 1) % 2]), (group - 1) / 2 % 2);
#endif
        __syncwarp();
        if (threadIdx.x == 0)
            asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;"
                         :: "r"(shared_address(&local)), "l"(x + group * 128) : "memory");
        __syncwarp();
        asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
                     ".sync.aligned [%0], [%1], 128;"
                     :: "l"(changed), "r"(shared_address(&local)) : "memory");
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;"
                     :: "l"(changed) : "memory");
        if (threadIdx.x == 0) {
            expect(shared_address(&full[group % 2]), 512);
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                         ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];"
                         :: "r"(shared_address(box[group % 2])), "l"(changed), "r"(0),
                            "r"(shared_address(&full[group % 2])) : "memory");
        }
    }
    for (int group = groups - 2; group < groups; ++group) {
        wait(shared_address(&full[group % 2]), group / 2 % 2);
        for (int row = 0; row < 4; ++row)
            out[(group * 4 + row) * 32 + threadIdx.x] = box[group % 2][row][threadIdx.x];
    }
}
