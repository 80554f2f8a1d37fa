// Of each block, when its PHASES of clock_readings.py begin, and its SM.
#define BLOCKS 4096
__device__ long long marks[BLOCKS][4];
__device__ int sms[BLOCKS];
#define MARK(phase, reads) read_clock(&marks[blockIdx.x][phase], threadIdx.x == 0 && (reads));
#define BEGIN MARK(0, true) if (threadIdx.x == 0) \
    asm volatile("{ .reg .b32 t; mov.u32 t, %%smid; st.global.b32 [%0], t; }" \
                 :: "l"(sms + blockIdx.x) : "memory");
