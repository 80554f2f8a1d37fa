"""Requests, sectors and wavefronts against a count that looks at one lane at a time."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxsim
import sample_kernels
from ptxsim import metrics

f4 = np.float32
warps = st.integers(1, 6)
sizes = st.sampled_from([1, 2, 4, 8, 16])


# --- a warp's addresses ---------------------------------------------------------------------------


def brute_sectors(addresses, active, size):
    """Distinct aligned 32 bytes that the bytes of the active lanes lie in."""
    totals = []
    for row, lanes in zip(addresses, active, strict=True):
        begins = np.asarray(row)[np.asarray(lanes)].tolist()
        totals.append(len({(begin + i) // 32 for begin in begins for i in range(size)}))
    return totals


def brute_wavefronts(addresses, active, size):
    """Passes of 32 banks of 4 bytes; lanes go in groups that ask for at most 128 bytes together."""
    totals = []
    group = 32 * 4 // max(size, 4)
    for row, lanes in zip(addresses, active, strict=True):
        total = 0
        for first in range(0, 32, group):
            words = {
                (int(a) + i) // 4
                for a, on in zip(
                    row[first : first + group], lanes[first : first + group], strict=True
                )
                if on
                for i in range(size)
            }
            total += max(Counter(word % 32 for word in words).values(), default=0)
        totals.append(total)
    return totals


def brute_load_wavefronts(addresses, active, size):
    """As brute_wavefronts, but neighbouring groups go together if their lanes agree in pairs."""
    group = 32 * 4 // max(size, 4)
    totals = []
    for row, lanes in zip(addresses, active, strict=True):
        total = 0
        for first in range(0, 32, min(32, 2 * group)):
            here = range(first, first + min(32, 2 * group))
            parts = [here] if group == 32 else [here[:group], here[group:]]
            agree = [
                all(row[i] == row[i ^ by] for i in here if lanes[i] or lanes[i ^ by])
                for by in (1, 2)
            ]
            if any(agree):
                parts = [here]
            for part in parts:
                words = {(int(row[i]) + b) // 4 for i in part if lanes[i] for b in range(size)}
                busiest = max(Counter(word % 32 for word in words).values(), default=0)
                total += busiest
        totals.append(total)
    return totals


@st.composite
def accesses(draw):
    rows, size = draw(warps), draw(sizes)
    span = draw(st.sampled_from([40, 200, 5000]))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    kind = draw(st.sampled_from(["random", "stride", "same"]))
    if kind == "random":
        elements = random.integers(0, span, (rows, 32))
    elif kind == "stride":
        elements = random.integers(0, 99) + draw(st.integers(0, 40)) * np.arange(32 * rows)
        elements = elements.reshape(rows, 32)
    else:
        elements = np.repeat(random.integers(0, span, (rows, 1)), 32, axis=1)
    active = random.random((rows, 32)) < draw(st.sampled_from([0.1, 0.5, 1.0]))
    # The counter is asked about warps with at least one active lane.
    active[np.arange(rows), random.integers(0, 32, rows)] = True
    return elements.astype(np.int64) * size, active, size


@given(accesses())
def test_sectors_are_the_32_bytes_that_are_touched(access):
    assert metrics.sectors(*access).tolist() == brute_sectors(*access)


@given(accesses())
def test_wavefronts_are_the_most_words_of_one_bank(access):
    addresses, active, size = access
    counter = metrics.Counter()
    for operation in ("load", "store"):
        for row, lanes in zip(addresses, active, strict=True):
            key = (1, "shared", operation, "s")
            counter.add(key, row[None], lanes[None], size, np.ones(1, int))
    load, store = counter.lines()
    assert store.units == sum(brute_wavefronts(*access))
    assert load.units == sum(brute_load_wavefronts(*access))


# What Nsight Compute counted on an NVIDIA H200 of a load by one warp: bytes per lane; a, s and t of
# the place (lane % a) * s + (lane / a) * t, in units of these bytes; wavefronts, bank conflicts.
LOADS_OF_A_WARP = [
    (16, 2, 0, 2, 4, 2), (16, 2, 8, 0, 4, 2), (16, 4, 0, 4, 4, 2), (16, 4, 0, 8, 8, 6),
    (16, 4, 2, 1, 4, 0), (16, 8, 0, 8, 4, 2), (16, 8, 1, 0, 4, 0), (16, 8, 2, 0, 8, 4),
    (16, 16, 2, 1, 8, 4), (8, 2, 8, 0, 1, 0), (8, 4, 0, 4, 2, 1), (8, 4, 0, 8, 4, 3),
    (8, 4, 2, 1, 2, 0), (8, 8, 0, 8, 2, 1), (8, 8, 2, 0, 2, 0), (8, 16, 2, 1, 4, 2),
    (4, 4, 0, 8, 2, 1), (4, 8, 0, 8, 1, 0), (4, 16, 2, 1, 1, 0),
]  # fmt: skip


@pytest.mark.parametrize(("size", "a", "s", "t", "wavefronts", "conflicts"), LOADS_OF_A_WARP)
def test_wide_loads_conflict_as_the_hardware_counts(size, a, s, t, wavefronts, conflicts):
    lane, counter = np.arange(32), metrics.Counter()
    places = (lane % a * s + lane // a * t) * size
    key = (1, "shared", "load", "s")
    counter.add(key, places[None], np.ones((1, 32), bool), size, np.ones(1, int))
    totals = counter.totals()
    assert totals["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == wavefronts
    assert totals["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == conflicts


@pytest.mark.parametrize(
    ("unit", "wavefronts"),
    [
        (np.arange(32), 4),  # lanes whose neighbours take no part, and have other addresses
        (np.arange(32) // 2, 2),  # the same address as its neighbour's, whether that takes part
    ],
)
def test_a_lane_that_takes_no_part_has_an_address_too(unit, wavefronts):
    """The first as counted on an NVIDIA H200; the second by the rule that fits what it counted of
    48 patterns with such lanes."""
    active = np.array([int(x) for x in "01100010101011101100100100100000"], bool)[None]
    counter = metrics.Counter()
    key = (1, "shared", "load", "s")
    counter.add(key, unit[None] * 16, active, 16, np.ones(1, int))
    totals = counter.totals()
    assert totals["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == wavefronts


@given(accesses(), st.integers(0, 10**6))
def test_equal_warps_may_be_counted_together(access, seed):
    addresses, active, size = access
    times = np.random.default_rng(seed).integers(1, 5, len(addresses))
    together, one_by_one = metrics.Counter(), metrics.Counter()
    for space in ("global", "shared"):
        key = (7, space, "load", "A")
        together.add(key, addresses, active, size, times)
        for row, lanes, count in zip(addresses, active, times, strict=True):
            for _ in range(count):
                one_by_one.add(key, row[None], lanes[None], size, np.array([1]))
    assert together.totals() == one_by_one.totals()
    assert together.lines() == one_by_one.lines()


# --- whole kernels --------------------------------------------------------------------------------


def sums_agree(run, wide=False):
    """The totals under Nsight Compute's names are those of the lines.

    `wide`: whether there are accesses of 8 or 16 bytes, some of them merged from narrower loads:
    they take 2 or 4 wavefronts at best.
    """
    lines, totals = run.lines, run.counters
    for (space, operation), (requests, units, *conflicts) in metrics.METRICS.items():
        some = [line for line in lines if (line.space, line.operation) == (space, operation)]
        assert totals[requests] == sum(line.requests for line in some)
        assert totals[units] == sum(line.units for line in some)
        for name in conflicts:
            most = totals[units] - totals[requests]
            assert totals[name] >= 0 if wide else totals[name] == most


@pytest.mark.parametrize("name", sample_kernels.SAMPLES)
def test_counts_do_not_depend_on_how_many_blocks_run_together(name, monkeypatch):
    """Run together, warps that ask for the same are counted once, times their number."""
    sample = sample_kernels.SAMPLES[name]

    left, together = sample.run(count=True)
    monkeypatch.setattr(ptxsim.grid, "CHUNK_LANES", sample.fifth)
    monkeypatch.setattr(ptxsim.grid, "THREADS", 4)
    also, apart = sample.run(count=True)
    for array, other in zip(left, also, strict=True):
        np.testing.assert_array_equal(array, other)
    assert together.lines == apart.lines and together.lines
    assert together.counters == apart.counters
    sums_agree(together, wide=name in ("vector", "tiled"))


def test_nothing_is_counted_unless_asked_for():
    sample = sample_kernels.SAMPLES["tiled"]
    _, run = sample.run()
    assert run.counters == {} and run.lines == []
    with pytest.raises(KeyError, match=r"nothing was counted; launch\(…, count=True\) counts"):
        run.counters[metrics.FMA_METRIC]


def test_a_metric_that_is_not_counted_names_the_nearest_and_what_did_not_occur_is_0():
    sample = sample_kernels.SAMPLES["tiled"]
    _, run = sample.run(count=True)
    conflicts = metrics.METRICS["shared", "load"][-1]
    with pytest.raises(KeyError, match=f"_lod.sum is not counted .*nearest that are: {conflicts},"):
        run.counters[conflicts.replace("_ld.sum", "_lod.sum")]
    rare = "smsp__sass_inst_executed_op_tma_ld.sum"
    assert run.counters[rare] == 0 and rare not in run.counters
    assert {name for name in metrics.BULK_METRICS["global", "bulk load"]} <= metrics.RARE


STEPPING = """extern "C" __global__ void stepping(const float* A, const float* B, float* C,
                                             int first, int step, int own, int least, int times) {
    __shared__ float s[4096];
    int t = threadIdx.x;
    for (int i = t; i < 4096; i += 64) s[i] = A[i];
    __syncthreads();
    float sum = 0.0f;
    #pragma unroll 1
    for (int i = 0; i < times; ++i) {
        int at = first + i * step + t * own;
        if (t % 32 >= (i & least)) sum += (i < 5 ? A : B)[at] + s[at];
        C[at] = sum;
    }
}"""


@settings(max_examples=20)
@given(
    first=st.integers(0, 9), step=st.integers(0, 40), per_thread=st.integers(0, 5),
    least=st.integers(0, 3), times=st.integers(1, 12),
)  # fmt: skip
def test_addresses_that_move_in_a_loop_are_counted_each_time_as_they_lie(
    first, step, per_thread, least, times
):
    A, B, C = np.ones(4096, f4), np.ones(4096, f4), np.zeros(4096, f4)
    numbers = [np.int32(n) for n in (first, step, per_thread, least, times)]
    given = STEPPING, "stepping", (1, 1, 1), (64, 1, 1), [A, B, C, *numbers]
    each = ptxsim.launch(*given, count=True, blocks=[(0, 0, 0)]).accesses((0, 0, 0))
    together = ptxsim.launch(*given, count=True)
    requests, units = Counter(), Counter()
    for a in each:
        rule = brute_sectors if a.space == "global" else brute_wavefronts
        requests[a.line, a.space, a.operation, a.array] += 1
        units[a.line, a.space, a.operation, a.array] += rule([a.addresses], [a.active], a.size)[0]
    lines = {(c.line, c.space, c.operation, c.array): c for c in together.lines}
    assert requests == {key: c.requests for key, c in lines.items()}
    assert units == {key: c.units for key, c in lines.items()}
