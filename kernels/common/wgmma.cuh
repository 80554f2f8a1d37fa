// wgmma, whatever its element type: the four warps of a warpgroup start a product of 64 rows of A,
// and the tensor cores read both operands from shared memory by themselves. For sm_90a alone.
//
// Operands lie in rows of 128 bytes with a swizzle of 128 bytes: chunk c, of 16 bytes, of row r is
// at chunk c ^ r % 8. The swizzle repeats every 8 rows, and operands begin at multiples of that,
// SWIZZLE_PERIOD. The tensor map that fills them is made with the same swizzle.
#pragma once

constexpr int WARPGROUP_THREADS = 128;
constexpr int WARPGROUP_ROWS = 64;               // of C, of one instruction
constexpr int ROW_BYTES = 128;
constexpr int SWIZZLE_PERIOD = 8 * ROW_BYTES;
constexpr int SQUARE_BYTES = 64 * ROW_BYTES;     // 64 rows: a warpgroup's part of A

// A matrix descriptor says where an operand lies. Its fields, by their first bit; addresses and
// offsets count in units of 16 bytes.
typedef unsigned long long Descriptor;

constexpr int START_ADDRESS = 0, LEADING_OFFSET = 16, STRIDE_OFFSET = 32, SWIZZLE_MODE = 62;
constexpr Descriptor SWIZZLE_128_BYTES = 1;

// An address has 18 bits here: above them stands, in a cluster, the rank of the block.
constexpr unsigned ADDRESS_MASK = (1 << 18) - 1;

// Rows of an operand lie along K or along N: neighbours in a row are neighbours along that. Where
// they lie along N, `leading_offset` is bytes from a square of 64 columns to the next one. Rows
// along K need none: what an instruction takes of a row is inside its 128 bytes.
__device__ __forceinline__ Descriptor make_descriptor(unsigned address, int leading_offset = 0)
{
    return (Descriptor)((address & ADDRESS_MASK) / 16) << START_ADDRESS
         | (Descriptor)(leading_offset / 16) << LEADING_OFFSET
         | (Descriptor)(SWIZZLE_PERIOD / 16) << STRIDE_OFFSET      // from 8 rows to the next 8
         | SWIZZLE_128_BYTES << SWIZZLE_MODE;
}

// To `bytes` bytes further along K. An operand's first address is a multiple of SWIZZLE_PERIOD, and
// the hardware swizzles the address that results, so this is a plain addition.
__device__ __forceinline__ Descriptor advance(Descriptor descriptor, int bytes)
{
    return descriptor + (bytes / 16 << START_ADDRESS);
}

// What threads have done to accumulators comes before the products that follow. It orders registers
// alone: after threads have stored an operand to shared memory, fence_async_proxy() is needed too.
__device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// The products started since the last call become one group.
__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Wait until at most PENDING groups are under way. The others have read their operands, and their
// accumulators can be read.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}

// Row and column of a thread's accumulator i, in the 64 rows of its warpgroup: a warp has 16 of
// them, and for every 8 columns accumulators as in an mma tile of mma.sync (15).
__device__ __forceinline__ int accumulator_row(int i)
{
    return threadIdx.x % WARPGROUP_THREADS / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8;
}

__device__ __forceinline__ int accumulator_column(int i)
{
    return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
}
