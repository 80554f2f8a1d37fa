"""The probes that read each level of memory."""

from dataclasses import replace

import numpy
import pytest

import ptxsim
from gemmlab.kernel.compiler import options_for
from gemmlab.ladder import LEVELS, Launch
from gemmlab.ladder.probes import READS
from gemmlab.measure import ceilings
from ptxsim.metrics import METRICS

BLOCKS, THREADS = 3, 32


def read_in_simulator(read, trips=2, rounds=3):
    """What the kernel of a read stores, float32 (BLOCKS, THREADS), and what it should."""
    shape = Launch(read.entry, (BLOCKS, 1, 1), (THREADS, 1, 1))
    whole = trips * ceilings.BYTES * read.ahead * THREADS * (BLOCKS if read.together else 1)
    count = ceilings.pieces(read, shape, whole + ceilings.BYTES)  # one piece more does not fit
    assert ceilings.BYTES * count == whole
    numbers = numpy.random.default_rng(4).integers(0, 4, (count, 4)).astype(numpy.float32)
    out = numpy.full((BLOCKS, THREADS), numpy.nan, numpy.float32)
    run = ptxsim.launch(
        LEVELS.path, read.entry, shape.grid, shape.block, [numbers, out, count, rounds],
        options=options_for(read.macros), check=True, count=True,
        shared_bytes=ceilings.BYTES * count if read.entry == "read_shared" else 0,
    )  # fmt: skip
    assert not run.findings
    expected = ceilings.sums(numbers, read, BLOCKS, THREADS, rounds)
    return out, expected, run, count * rounds


@pytest.mark.parametrize("ahead", [1, 4])
@pytest.mark.parametrize("level", READS)
def test_every_thread_sums_what_is_its_own_in_every_round(level, ahead):
    read = replace(READS[level], ahead=ahead)
    out, expected, run, pieces = read_in_simulator(read)
    assert numpy.array_equal(out, numpy.broadcast_to(expected, out.shape))
    space = "shared" if read.entry == "read_shared" else "global"
    requests = run.counters[METRICS[space, "load"][0]]
    assert requests == pieces * (1 if read.together else BLOCKS) // 32
