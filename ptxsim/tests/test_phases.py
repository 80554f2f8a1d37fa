"""Waits for a phase of an mbarrier that another phase of the same parity may stand in for."""

import numpy as np
import pytest

import ptxsim

KIND = "mbarrier phase may be missed"
HELPERS = r"""
typedef unsigned u32;
__device__ u32 address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u32 bar, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
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
"""
# Three warps add up tiles in turn, which a fourth has copied, or stores itself.
IN_TURN = (
    HELPERS
    + r"""
extern "C" __global__ void in_turn(const float* x, float* sums, int tiles)
{
    __shared__ __align__(16) float stage[STAGES][32];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) init(address(&full[s]), 1), init(address(&empty[s]), 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (warp == 3) {
        for (int t = 0; t < tiles; ++t) {
            const int s = t % STAGES;
            if (t >= STAGES) wait(address(&empty[s]), (t / STAGES - 1) % 2);
#ifdef STORED
            stage[s][lane] = x[t * 32 + lane];
            __syncwarp();
            if (lane == 0) arrive(address(&full[s]));
#else
            if (lane == 0) {
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;"
                             :: "r"(address(&full[s])) : "memory");
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                             "[%0], [%1], 128, [%2];" :: "r"(address(stage[s])), "l"(x + t * 32),
                             "r"(address(&full[s])) : "memory");
            }
#endif
        }
        return;
    }
    float sum = 0;
    for (int t = warp; t < tiles; t += 3) {
        const int s = t % STAGES;
        wait(address(&full[s]), t / STAGES % 2);  // the consumer
        sum += stage[s][lane];
        __syncwarp();
        if (lane == 0) arrive(address(&empty[s]));
    }
    sums[warp * 32 + lane] = sum;
}
"""
)


def run(source, entry, threads, args, *options):
    return ptxsim.launch(source, entry, 1, threads, args, options=options, check=True)


def in_turn(*options):
    x = np.random.default_rng(0).integers(0, 100, (12, 32)).astype(np.float32)
    sums = np.zeros((3, 32), np.float32)
    launched = run(IN_TURN, "in_turn", 128, [x, sums, len(x)], *options)
    expected = np.stack([x[warp::3].sum(axis=0) for warp in range(3)])
    return launched.findings, np.array_equal(sums, expected)


def line(source, part):
    return next(n for n, text in enumerate(source.splitlines(), 1) if part in text)


@pytest.mark.parametrize("options", [("-DSTAGES=2",), ("-DSTAGES=4",), ("-DSTAGES=2", "-DSTORED")])
def test_consumers_in_turn_that_skip_phases_may_pass_too_early_or_miss_theirs(options):
    """With 4 stages the copies of tiles that others wait for may still be under way."""
    findings, _ = in_turn(*options)
    at = {finding.header for finding in findings if finding.kind == KIND}
    assert f"called in line {line(IN_TURN, '// the consumer')}" in at, findings


@pytest.mark.parametrize("options", [("-DSTAGES=3",), ("-DSTAGES=6",), ("-DSTAGES=4", "-DSTORED")])
def test_consumers_in_turn_are_right_where_they_know_the_phase_before(options):
    """A consumer meets the same stages again; or knows of all that its producer has stored."""
    assert in_turn(*options) == ([], True)


# Each warp tells the other one of its steps, by an mbarrier of the other one.
IN_STEP = (
    HELPERS
    + r"""
extern "C" __global__ void in_step(int steps)
{
    __shared__ unsigned long long told[2][BARRIERS];
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        for (int b = 0; b < 2 * BARRIERS; ++b) init(address(&told[0][b]), 1);
    __syncthreads();
    for (int step = 0; step < steps; ++step) {
        if (threadIdx.x % 32 == 0) arrive(address(&told[1 - warp][step % BARRIERS]));
        __syncwarp();
        wait(address(&told[warp][step % BARRIERS]), step / BARRIERS % 2);
    }
}
"""
)


def test_a_phase_is_missed_where_others_may_be_two_ahead():
    (finding,) = run(IN_STEP, "in_step", 64, [5], "-DBARRIERS=1").findings
    wait = line(IN_STEP, "wait(address(&told[warp]")
    assert (finding.kind, finding.header) == (KIND, f"called in line {wait}")
    assert f"completes, in line {line(IN_STEP, 'mbarrier.arrive')}" in finding.what


def test_no_phase_is_missed_where_each_step_has_the_other_barrier():
    assert run(IN_STEP, "in_step", 64, [5], "-DBARRIERS=2").findings == []
