"""What a launch refuses, and that the arrays are then as they were."""

import sys
import tracemalloc

import numpy as np
import pytest

from gemmlab import simulator
from gemmlab.simulator import LaunchError

SOURCE = """
extern __shared__ float dynamic[];
extern "C" __global__ void scale(float* x, float factor, int n) {
    __shared__ float box[1024];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    box[threadIdx.x] = i < n ? x[i] : 0.0f;
    if (i < n) x[i] = factor * box[threadIdx.x];
}
extern "C" __global__ void walk(float* x, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) sum += x[i % 4];
    x[(blockIdx.x * blockDim.x + threadIdx.x) % 4] = sum;
}
extern "C" __global__ void wait(float* x) {
    x[0] = 2.0f;
    while (((volatile float*)x)[1] != 5.0f) {}
}
extern "C" __global__ void count(float* x) {
    x[0] = 2.0f;
    for (int i = 0; i >= 0; i = (i + 1) % 7) asm volatile("");
}
"""
f4 = np.float32


def refused(entry, grid, block, args, **how) -> str:
    before = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    with pytest.raises(LaunchError) as error:
        simulator.launch(SOURCE, entry, grid, block, args, **how)
    for arg, old in zip(args, before, strict=True):
        assert np.array_equal(arg, old)
    return str(error.value)


def ones(count=4):
    return np.ones(count, f4)


ONE, WARP = (1, 1, 1), (32, 1, 1)


def test_an_unknown_entry_lists_those_there_are():
    message = refused("skale", ONE, WARP, [ones(), 2.0, 4])
    assert "skale" in message and "scale, walk, wait" in message


@pytest.mark.parametrize("count", [2, 4])
def test_a_wrong_number_of_arguments(count):
    args = [ones(), 2.0, 4, 4][:count]
    assert f"takes 3 arguments, not {count}" in refused("scale", ONE, WARP, args)


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ([2.0, 2.0, 4], "x = 2.0"),
        ([ones(), ones(), 4], "factor is an array"),
        ([ones(), 2.0, 4.5], "n = 4.5"),
        ([ones(), 2.0, 2**40], "n = 1099511627776"),
        ([ones(), "2", 4], "factor = '2'"),
        ([ones(), 2.0, True], "n = True"),
        ([ones().tolist(), 2.0, 4], "x = [1.0"),
        ([ones(8)[::2], 2.0, 4], "x is not C-contiguous"),
        ([np.broadcast_to(f4(1), 4), 2.0, 4], "x is"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(args, what):
    assert what in refused("scale", ONE, WARP, args)


def test_a_read_only_array_is_named():
    x = ones()
    x.flags.writeable = False
    assert "x is read-only" in refused("scale", ONE, WARP, [x, 2.0, 4])


@pytest.mark.parametrize(
    ("grid", "block", "what"),
    [
        (ONE, (1025, 1, 1), "1025"),
        (ONE, (32, 33, 1), "1056 threads"),
        (ONE, (1, 1, 65), "z is 65"),
        ((0, 1, 1), WARP, "x is 0"),
        ((1, 65536, 1), WARP, "y is 65536"),
        ((1, 1, 1, 1), WARP, "more than three"),
    ],
)
def test_a_shape_that_no_gpu_takes(grid, block, what):
    assert what in refused("scale", grid, block, [ones(), 2.0, 4])


@pytest.mark.parametrize(
    ("arch", "most"), [("sm_75", 64 * 1024), ("sm_86", 99 * 1024), ("sm_90a", 227 * 1024)]
)
def test_shared_memory_is_limited_by_the_architecture(arch, most):
    args = [ones(), 2.0, 4]
    simulator.launch(SOURCE, "scale", ONE, WARP, args, arch=arch, shared_bytes=most - 4096)
    how = {"arch": arch, "shared_bytes": most - 4095}
    message = refused("scale", ONE, WARP, [ones(), 2.0, 4], **how)
    assert str(most) in message and str(most + 1) in message and arch in message


def test_negative_shared_memory_is_refused():
    assert "-1" in refused("scale", ONE, WARP, [ones(), 2.0, 4], shared_bytes=-1)


def test_a_launch_that_would_take_minutes_says_so_and_how_to_go_on(monkeypatch):
    monkeypatch.setattr(simulator.grid, "CHUNK_LANES", 1024)
    monkeypatch.setattr(simulator.grid, "SEEN_S", 0.05)
    message = refused("walk", (100_000, 1, 1), (1024, 1, 1), [ones(), 2000])
    assert "minutes" in message and "blocks=[(0, 0, 0)]" in message and "limit_s=None" in message


def test_a_launch_that_waits_for_ever_ends_at_its_limit():
    message = refused("count", ONE, ONE, [ones()], limit_s=0.2)
    assert "was given 0.2 seconds and takes longer, for its first blocks alone" in message


def test_a_launch_that_waits_for_what_nobody_writes_ends_at_once():
    run = simulator.launch(SOURCE, "wait", ONE, ONE, [ones()])
    (finding,) = run.findings
    assert finding.kind == "deadlock" and "for what nobody writes" in finding.what


def test_a_limit_that_is_not_reached_changes_nothing():
    x = ones(64)
    run = simulator.launch(SOURCE, "scale", (2, 1, 1), WARP, [x, 2.0, 64], limit_s=60)
    assert run.findings == [] and (x == 2).all()


# --- what a GPU refuses too -----------------------------------------------------------------------

BOUNDED = """
extern "C" __global__ void __launch_bounds__(128) bounded(float* x) {
    x[threadIdx.x + blockDim.x * threadIdx.y] = 1.0f;
}
extern "C" __global__ void __block_size__((32, 4, 1), (1, 1, 1)) fixed(float* x) {
    x[threadIdx.x + 32 * threadIdx.y] = 1.0f;
}
"""


@pytest.mark.parametrize(
    ("entry", "block", "says"),
    [
        ("bounded", (128, 1, 1), None),
        ("bounded", (16, 8, 1), None),
        ("bounded", (129, 1, 1), "129 threads.*at most 128: __launch_bounds__"),
        ("bounded", (16, 16, 1), "256 threads"),
        ("fixed", (32, 4, 1), None),
        ("fixed", (128, 1, 1), r"blocks of \(32, 4, 1\) alone, not \(128, 1, 1\)"),
    ],
)
def test_a_block_is_held_against_what_the_kernel_was_compiled_for(entry, block, says):
    x = np.zeros(128, f4)
    if says is None:
        assert not simulator.launch(BOUNDED, entry, ONE, block, [x]).findings and x.all()
        return
    with pytest.raises(LaunchError, match=says):
        simulator.launch(BOUNDED, entry, ONE, block, [x])
    assert not x.any()


WRITES = """
extern "C" __global__ void store(float* a, float* b) { b[threadIdx.x] = 1; a[threadIdx.x + 3] = 2; }
extern "C" __global__ void add(float* a, float* b) { atomicAdd(a + threadIdx.x + 3, 1.0f); }
extern "C" __global__ void read(float* a, float* b) { b[threadIdx.x] = a[threadIdx.x]; }
"""


@pytest.mark.parametrize(("entry", "line"), [("store", 2), ("add", 3), ("read", None)])
def test_what_is_read_only_is_not_written(entry, line):
    a, b = np.zeros(64, f4), np.zeros(64, f4)
    a.flags.writeable = False
    run = simulator.launch(WRITES, entry, ONE, WARP, [simulator.read_only(a), b], count=True)
    assert not a.any()
    if line is None:
        assert not run.findings
        return
    (found,) = run.findings
    assert (found.kind, found.line, found.lanes) == ("forbidden write", line, 32)
    assert "writes to a[3], and a is an input" in str(found)
    run.accesses((0, 0, 0))  # which runs the block once more
    assert not a.any()


def test_a_large_variable_takes_the_memory_that_is_used():
    source = """__device__ float g[1 << 29];
    extern "C" __global__ void k(float* x) { g[1 << 27] = 7; x[0] = g[1 << 27] + g[3]; }"""
    before, x = _memory_peak(), ones()
    assert not simulator.launch(source, "k", ONE, ONE, [x]).findings and x[0] == 7
    assert _memory_peak() - before < 2**28  # of 2**31 bytes
    with pytest.raises(LaunchError, match="g alone has 68,719,476,736 bytes"):
        simulator.launch(source.replace("1 << 29", "1ll << 34"), "k", ONE, ONE, [x])


def _memory_peak() -> int:
    """Bytes of this process that were in memory at once."""
    resource = pytest.importorskip("resource", reason="Windows does not tell it")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def test_large_local_arrays_are_run_some_blocks_at_a_time_or_refused(monkeypatch):
    monkeypatch.setattr(simulator.grid, "LOCAL_BYTES", 1 << 22)
    source = """extern "C" __global__ void k(float* x, int n) {
        float own[50000];
        for (int i = 0; i < n; ++i) own[i * 7919 % 50000] = i;
        x[blockIdx.x * blockDim.x + threadIdx.x] = own[n];
    }"""
    args = [np.zeros(512, f4), 7]
    simulator.launch(source, "k", ONE, ONE, args)  # whatever is kept of the kernel
    tracemalloc.start()
    try:
        assert not simulator.launch(source, "k", (16, 1, 1), WARP, args).findings
        assert tracemalloc.get_traced_memory()[1] < 2**25  # of 16 * 32 * 200000 bytes
    finally:
        tracemalloc.stop()
    with pytest.raises(LaunchError, match="2,000,000 bytes of local memory"):
        simulator.launch(source.replace("50000", "500000"), "k", ONE, ONE, args)


# ---- pointers into arrays, and arrays of them ----------------------------------------------------

GATHER = """
extern "C" __global__ void gather(const float* const* rows, const float* more, float* out, int n)
{
    const int i = threadIdx.x;
    for (int row = 0; row < n; ++row) out[row * 32 + i] = rows[row][i] + more[i];
}
"""


def gathered(rows, more, out, n, **how):
    return simulator.launch(GATHER, "gather", (1, 1, 1), (32, 1, 1), [rows, more, out, n], **how)


def test_an_array_of_pointers_leads_to_parts_of_an_array():
    x, y = np.arange(200, dtype=np.float32), np.arange(100, 148, dtype=np.float32)
    out = np.zeros((4, 32), np.float32)
    starts = [5, 100, 5, 0]
    run = gathered(simulator.Pointers(x, starts), simulator.Part(y, 16), out, 4, count=True)
    expected = [x[start : start + 32] + y[16:] for start in starts]
    assert np.array_equal(out, expected) and not run.findings
    assert {line.array for line in run.lines} >= {"rows", "more", "out"}


def test_pointers_past_the_end_and_into_what_is_read_only_or_unwritten_are_findings():
    x, out = np.zeros(64, np.float32), np.zeros((2, 32), np.float32)
    (found,) = gathered(simulator.Pointers(x, [0, 40]), x.copy(), out, 2).findings
    assert found.kind.startswith("out-of-bounds") and "rows[64] of 64 elements" in found.what
    (found,) = gathered(
        simulator.Pointers(simulator.uninitialised(x), [0, 16]), x.copy(), out, 2, check=True
    ).findings
    assert "uninitialised" in found.kind
    (found,) = gathered(
        simulator.Pointers(x, [0, 16]), x.copy(), simulator.read_only(out), 2
    ).findings
    assert "out is an input" in found.what
    (found,) = gathered(simulator.Pointers(x, [0, 0]), simulator.Part(x, 33), out, 2).findings
    assert found.kind.startswith("out-of-bounds")


def test_pointers_are_for_parameters_that_are_pointers():
    x = np.zeros(64, np.float32)
    for wrong in (simulator.Pointers(x, [0]), simulator.Part(x, 1)):
        with pytest.raises(simulator.LaunchError, match=r"n is an array.*, the kernel takes a"):
            gathered(simulator.Pointers(x, [0]), x, x.copy(), wrong)
