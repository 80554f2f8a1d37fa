// Of each tile and role: EVENTS of measure.py, and the number of the SM.
__device__ long long marks[2048][3][7];
#define MARK(event, reads) \
    read_clock(&marks[TILE][threadIdx.x / 128][event], threadIdx.x % 128 == 0 && (reads));
__device__ __forceinline__ void read_sm(long long* to, bool reads)
{
    asm volatile("{ .reg .pred p; .reg .b32 t; .reg .b64 u; setp.ne.u32 p, %1, 0;"
                 " @p mov.u32 t, %%smid; @p cvt.u64.u32 u, t; @p st.global.b64 [%0], u; }"
                 :: "l"(to), "r"((int)reads) : "memory");
}
#define MARK_BEFORE(event, reads) \
    read_clock(&marks[TILE_BEFORE][threadIdx.x / 128][event], \
               threadIdx.x % 128 == 0 && (reads));
#define BEGINS(reads) MARK(1, reads) \
    read_sm(&marks[TILE][threadIdx.x / 128][6], threadIdx.x % 128 == 0 && (reads));
