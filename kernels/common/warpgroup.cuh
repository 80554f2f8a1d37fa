// wgmma: four warps, a warpgroup, start a product of 64 rows, and the tensor cores read both
// factors from shared memory by themselves. For sm_90a alone.
//
// Factors lie in rows of 128 bytes, 64 elements of 16 bits, and with a swizzle of 128 bytes: chunk
// c of row r is at chunk c ^ r % 8. The pattern repeats every 8 rows, 1024 bytes, and begins there.
#pragma once

#define GROUP_THREADS 128                        // of a warpgroup
#define GROUP_ROWS 64                            // of C that one instruction computes
#define DEPTH 16                                 // along K of one instruction
#define ROW_BYTES 128
#define ROW_ELEMENTS 64
#define SWIZZLED_BYTES 1024                      // after so many the swizzle repeats

#if DTYPE == 1
#define TYPES "f32.bf16.bf16"
#else
#define TYPES "f32.f16.f16"
#endif

typedef unsigned long long Descriptor;

// Where a factor begins, and how far it is from 8 rows to the next 8. `leading`: where rows are not
// along K but across, from 64 elements of a row to the next 64. An address has 18 bits here: above
// them, in a cluster, stands the rank of the block, and would become part of `leading`.
__device__ __forceinline__ Descriptor describe(unsigned address, int leading = 0)
{
    return (address & 0x3FFFF) >> 4 | (Descriptor)(leading >> 4) << 16
         | (Descriptor)(SWIZZLED_BYTES >> 4) << 32 | 1ull << 62;
}

// The descriptor of what lies so many bytes behind.
__device__ __forceinline__ Descriptor behind(Descriptor one, int bytes)
{
    return one + (bytes >> 4);
}

// What threads have done to the sums comes before the products that follow.
__device__ __forceinline__ void fence_sums()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// The products that were started since the last call become one group.
__device__ __forceinline__ void commit_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Wait until no more than LEFT groups are under way: the others have read their factors, and their
// sums are there.
template <int LEFT>
__device__ __forceinline__ void wait_for_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LEFT) : "memory");
}

#define LIST_32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21," \
    "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define LIST_64 LIST_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48," \
    "%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define LIST_128 LIST_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80," \
    "%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102," \
    "%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120," \
    "%121,%122,%123,%124,%125,%126,%127"
#define FOUR(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define ALL_32 SIXTEEN(0), SIXTEEN(16)
#define ALL_64 ALL_32, SIXTEEN(32), SIXTEEN(48)
#define ALL_128 ALL_64, SIXTEEN(64), SIXTEEN(80), SIXTEEN(96), SIXTEEN(112)

// sums = A @ B, plus the sums before where `add` says so: 64 rows of A, 16 of K, and twice as many
// columns of B as a thread has sums. A's rows are along K; B's too, or with ACROSS along N.
template <bool ACROSS, int SUMS>
__device__ __forceinline__ void start_product(float (&sums)[SUMS], Descriptor a, Descriptor b,
                                              int add)
{
    static_assert(SUMS == 32 || SUMS == 64 || SUMS == 128, "64, 128 or 256 columns");
    if constexpr (SUMS == 32)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16."
                     TYPES " {" LIST_32 "}, %32, %33, p, 1, 1, 0, %35; }"
                     : ALL_32 : "l"(a), "l"(b), "r"(add), "n"(ACROSS));
    if constexpr (SUMS == 64)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16."
                     TYPES " {" LIST_64 "}, %64, %65, p, 1, 1, 0, %67; }"
                     : ALL_64 : "l"(a), "l"(b), "r"(add), "n"(ACROSS));
    if constexpr (SUMS == 128)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16."
                     TYPES " {" LIST_128 "}, %128, %129, p, 1, 1, 0, %131; }"
                     : ALL_128 : "l"(a), "l"(b), "r"(add), "n"(ACROSS));
}

// Which sum is where: row and column, in the 64 rows of my warpgroup, of my sum i.
__device__ __forceinline__ int row_of(int i)
{
    return threadIdx.x % GROUP_THREADS / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8;
}

__device__ __forceinline__ int col_of(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }
