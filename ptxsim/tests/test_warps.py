"""Shuffles, votes and atomics: recorded results of an NVIDIA H200, and what Python says of them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxsim
import record_warps as warps
from ptxsim.memory.global_memory import POISON

HERE = Path(__file__).parent
f4 = np.float32

# --- whole warps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", warps.TEXTS)
def test_every_instruction_of_a_warp_gives_what_the_hardware_gave(name):
    with np.load(HERE / "recorded" / "warps.npz") as file:
        recorded = dict(file)
    given = [recorded[key].copy() for key in ("value", "by", "clamp", "members")]
    out, truth = (np.zeros((warps.TRIALS, 32), np.uint32) for _ in range(2))
    grid = (warps.TRIALS, 1, 1)
    done = ptxsim.launch(warps.SOURCE, name, grid, (32, 1, 1), [*given, out, truth])
    # Values from lanes that take no part, which are 0 there and here.
    absent = {"shuffle from an absent lane"} if name.startswith("shfl") else set()
    assert {finding.kind for finding in done.findings} == absent
    assert np.array_equal(truth, recorded[f"truth {name}"])
    assert np.array_equal(out, recorded[f"result {name}"])


def test_lanes_that_do_not_exist_take_no_part():
    source = """extern "C" __global__ void k(int* out) {
        const int i = threadIdx.x;
        out[i] = __shfl_down_sync(__activemask(), i, 1);
        out[40 + i] = __ballot_sync(__activemask(), 1);
    }"""
    out = np.zeros(80, np.int32)
    (finding,) = ptxsim.launch(source, "k", (1, 1, 1), (40, 1, 1), [out]).findings
    assert out[:31].tolist() == list(range(1, 32)) and out[31] == 31
    assert out[32:39].tolist() == list(range(33, 40)) and out[39] == 0
    assert (out[40:72] == -1).all() and (out[72:] == 0xFF).all()
    facts = finding.kind, finding.line, finding.thread, finding.lanes
    assert facts == ("shuffle from an absent lane", 3, (39, 0, 0), 1)


LABELS = """extern "C" __global__ void k(const int* label, unsigned* out, int parted) {
    const int t = threadIdx.x, v = label[t];
    const unsigned own = __match_any_sync(~0u, v);
    unsigned ballot, sum; int all;
    if (parted && v % 2) {
        ballot = __ballot_sync(own, t & 4); sum = __reduce_add_sync(own, t);
        all = __all_sync(own, t > 2);
    } else {
        ballot = __ballot_sync(own, t & 4); sum = __reduce_add_sync(own, t);
        all = __all_sync(own, t > 2);
    }
    out[t] = own; out[32 + t] = ballot; out[64 + t] = sum; out[96 + t] = all;
}"""


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 6), st.booleans(), st.integers(0, 99))
def test_groups_of_lanes_that_name_themselves_keep_to_themselves(kinds, parted, seed):
    label = np.random.default_rng(seed).integers(0, kinds, 32).astype(np.int32)
    out = np.zeros((4, 32), np.uint32)
    args = [label, out, int(parted)]
    assert not ptxsim.launch(LABELS, "k", (1, 1, 1), (32, 1, 1), args, check=True).findings
    lane = np.arange(32)
    for t in lane:
        group = lane[label == label[t]]
        assert out[0, t] == sum(1 << int(member) for member in group)
        assert out[1, t] == sum(1 << int(member) for member in group if member & 4)
        assert out[2, t] == group.sum() and bool(out[3, t]) == (group > 2).all()


def test_a_lane_that_its_mask_does_not_name_is_found():
    source = """extern "C" __global__ void k(int* out) {
    if (threadIdx.x < 20)
        out[threadIdx.x] = __shfl_sync(0xffffu, threadIdx.x, 3);
    }"""
    (finding,) = ptxsim.launch(source, "k", 1, 32, [np.zeros(32, np.int32)]).findings
    facts = finding.kind, finding.line, finding.thread, finding.lanes
    assert facts == ("divergent warp", 3, (16, 0, 0), 4)


# --- atomics --------------------------------------------------------------------------------------

TURNS = """extern "C" __global__ void k(const int* place, const int* value, int* memory, int* old,
        int* sums, float* floats) {
    __shared__ int s[8];
    const int t = threadIdx.y * blockDim.x + threadIdx.x;
    const int i = blockIdx.x * blockDim.x * blockDim.y + t;
    if (t < 8) s[t] = 0;
    __syncthreads();
    old[i] = ATOMIC;
    atomicAdd(sums + place[i], value[i]);
    atomicAdd(floats + place[i], 0.1f * value[i]);
    atomicMax(&s[place[i]], value[i]);
    __syncthreads();
    if (t < 8) atomicAdd(sums + 8 + t, s[t]);
}"""


def as_uint(x: int) -> int:
    return x % 2**32


CHANGES = {
    "atomicAdd(memory + place[i], value[i])": lambda old, v: old + v,
    "atomicExch(memory + place[i], value[i])": lambda old, v: v,
    "atomicMin(memory + place[i], value[i])": min,
    "atomicXor(memory + place[i], value[i])": lambda old, v: old ^ v,
    "atomicInc((unsigned*)memory + place[i], value[i])":
        lambda old, v: 0 if as_uint(old) >= as_uint(v) else old + 1,
    "atomicDec((unsigned*)memory + place[i], value[i])":
        lambda old, v: v if as_uint(old) == 0 or as_uint(old) > as_uint(v) else old - 1,
    "atomicCAS(memory + place[i], value[i] & 3, value[i])":
        lambda old, v: v if old == v & 3 else old,
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@settings(max_examples=8, deadline=None)
@given(st.integers(1, 4), st.sampled_from([(8, 4), (40, 1), (3, 7)]), st.integers(0, 99))
def test_lanes_take_their_turns_at_one_place(change, blocks, block, seed):
    random = np.random.default_rng(seed)
    lanes = blocks * block[0] * block[1]
    place, value = (random.integers(-9 * k, 8, lanes, np.int32) for k in (0, 1))
    memory, old, sums = np.zeros(8, np.int32), np.zeros(lanes, np.int32), np.zeros(16, np.int32)
    floats = np.zeros(8, f4)
    args = [place, value, memory, old, sums, floats]
    source = TURNS.replace("ATOMIC", change)
    done = ptxsim.launch(source, "k", (blocks, 1, 1), (*block, 1), args, check=True)
    assert not done.findings
    turns, expected, added = [0] * 8, [], [f4(0)] * 8
    for p, v in zip(place.tolist(), value.tolist(), strict=True):
        expected.append(turns[p])
        turns[p] = CHANGES[change](turns[p], v)
        added[p] = f4(added[p] + f4(0.1) * f4(v))
    assert old.tolist() == expected and memory.tolist() == turns
    assert sums[:8].tolist() == [int(value[place == p].sum()) for p in range(8)]
    highest = np.zeros(8, int)
    for b in range(blocks):
        of_block = slice(b * lanes // blocks, (b + 1) * lanes // blocks)
        highest += [max([0, *value[of_block][place[of_block] == p]]) for p in range(8)]
    assert sums[8:].tolist() == highest.tolist()
    assert floats.tolist() == added


def test_an_atomic_out_of_bounds_is_found_and_changes_nothing():
    source = """extern "C" __global__ void k(int* x, int* out) {
    out[threadIdx.x] = atomicAdd(x + threadIdx.x, 1);
    }"""
    x, out = np.zeros(30, np.int32), np.zeros(32, np.int32)
    (finding,) = ptxsim.launch(source, "k", (1, 1, 1), (32, 1, 1), [x, out]).findings
    facts = finding.kind, finding.what, finding.lanes
    assert facts == ("out-of-bounds write", "x[30] of 30 elements", 2)
    assert (x == 1).all() and out[31] == POISON
