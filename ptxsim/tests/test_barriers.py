"""Barriers of blocks and warps: who waits, who goes on, what is found where someone is missing."""

import numpy as np
import pytest

import ptxsim


def run(body, threads=128, blocks=2, **how):
    """The int32 array that a kernel with this body leaves, one element a thread, and the run."""
    source = f'extern "C" __global__ void k(int* out) {{\n{body}\n}}'
    out = np.full(threads * blocks, -1, np.int32)
    done = ptxsim.launch(source, "k", (blocks, 1, 1), (threads, 1, 1), [out], **how)
    return out.reshape(blocks, threads), done


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("__syncthreads_count", [4, 5]), ("__syncthreads_or", [1, 1]), ("__syncthreads_and", [0, 0])],
)
def test_a_barrier_that_reduces_gives_all_threads_the_result(reduction, expected):
    body = f"out[blockIdx.x * 70 + threadIdx.x] = {reduction}(threadIdx.x < 4 + blockIdx.x);"
    out, done = run(body, threads=70)
    assert done.findings == []
    assert (out == np.array(expected)[:, None]).all()


def test_a_barrier_that_some_threads_wait_for_in_vain_is_a_deadlock():
    body = """
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 128;" ::: "memory");
    out[blockIdx.x * 128 + threadIdx.x] = 1;
    """
    out, done = run(body)
    (finding,) = done.findings
    assert (finding.kind, finding.line, finding.lanes) == ("deadlock", 3, 64)
    assert (out[:, 32:] == 1).all() and (out[:, :32] == -1).all()


def test_part_of_a_warp_waits_for_the_rest_at_a_warp_barrier():
    body = """
    __shared__ volatile int box[32];
    const int thread = threadIdx.x;
    if (thread < 16) { box[thread] = thread; __syncwarp(); }
    else { __syncwarp(); out[blockIdx.x * 32 + thread] = box[thread - 16]; }
    """
    out, _ = run(body, threads=32)
    assert (out[:, 16:] == np.arange(16)).all()


def test_a_warp_barrier_that_named_lanes_do_not_reach_is_found():
    body = """
    if (threadIdx.x % 32 < 16) __syncwarp();
    __syncthreads();
    out[threadIdx.x] = 1;
    """
    _, done = run(body, threads=64, blocks=1)
    (finding,) = done.findings
    assert (finding.kind, finding.line) == ("divergent warp", 3)
