// 00  The clock of the SMs
// Idea:    an SM counts its cycles, and the GPU its nanoseconds. Read before and after a piece of
//          work, the difference of the one over that of the other is the clock that the SM ran at.
// Launch:  block (1024), two for each SM, so that each SM gets one.
// Takes:   clocks: two numbers for each SM, cycles and nanoseconds; 0 stays where no block was.

extern "C" __global__ void __launch_bounds__(1024)
read_clocks(long long* __restrict__ clocks)
{
    unsigned sm;
    long long nanoseconds;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    if (threadIdx.x == 0) {
        clocks[2 * sm] = clock64();
        clocks[2 * sm + 1] = nanoseconds;
    }
}
