// A mark: a read of the clock and a store, both predicated, so that there is no branch.
__device__ __forceinline__ void read_clock(long long* to, bool reads)
{
    asm volatile("{ .reg .pred p; .reg .b64 t; setp.ne.u32 p, %1, 0; @p mov.u64 t, %%clock64;"
                 " @p st.global.b64 [%0], t; }" :: "l"(to), "r"((int)reads) : "memory");
}
