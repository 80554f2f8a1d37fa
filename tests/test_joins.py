"""Ways to join the parts of K: which settings are compared, and which bits agree."""

from itertools import product

import numpy as np
import pytest

from gemmlab.cuda.options import options_for
from gemmlab.kernel import in_simulator
from gemmlab.ladder.launch import multiplying
from gemmlab.ladder.settings import ALONE, ATOMICS, CLUSTER, JOINS, SECOND_KERNEL
from gemmlab.lessons.split_k import measure as joins
from gemmlab.loading import load

RUNG = joins.RUNG
ALWAYS_ONE = JOINS[ALONE], JOINS[SECOND_KERNEL]  # which add parts in no launch of theirs, or after
BEST = RUNG.defaults | {"SPLIT": 8, "JOIN": CLUSTER}


def test_all_ways_have_the_same_tile_and_as_many_parts_where_they_cut_k():
    ways = dict(joins.ways(BEST))
    assert list(ways) == list(JOINS)
    for join, settings in enumerate(ways.values()):
        assert settings["JOIN"] == join and RUNG.broken(settings) is None
        assert {**settings, "JOIN": 0, "SPLIT": 0} == {**BEST, "JOIN": 0, "SPLIT": 0}
    assert {settings["SPLIT"] for settings in ways.values()} == {1, 8}


SMALL = {"BM": 32, "BN": 32, "BK": 32, "TM": 4, "TN": 4, "SPLIT": 4}


def results_in_orders(kernel, m, n, k, orders):
    """C of the same product, its blocks run in so many orders; those of a cluster stay together."""
    problem, random = kernel.problem(m, n, k), np.random.default_rng(0)
    launches = kernel.launches(problem)
    launch = launches[multiplying(launches)]
    axes = [*zip(launch.grid, launch.cluster, strict=True)]
    clusters = [*product(*(range(0, size, of) for size, of in axes))]  # by their first blocks
    for _ in range(orders):
        blocks = [clusters[at] for at in random.permutation(len(clusters))]
        operands = kernel.operands(problem, seed=1)
        operands.C[...] = 0  # as the kernel leaves it that runs before atomic additions
        in_simulator.run(
            kernel.rung.path, launches, operands.values(1.0, 0.0), blocks=blocks,
            arch=kernel.arch, options=options_for(kernel.settings),
        )  # fmt: skip
        yield operands.C


@pytest.mark.parametrize("name", [name for name in JOINS if name not in ALWAYS_ONE])
def test_only_with_atomics_the_order_of_blocks_is_seen_in_the_bits(name):
    kernel = load(RUNG.name, **dict(joins.ways(SMALL))[name]).scheduled_for(1)
    results = {C.tobytes() for C in results_in_orders(kernel, 32, 32, 256, orders=4)}
    assert len(results) > 1 if name == JOINS[ATOMICS] else len(results) == 1


def test_the_order_of_22_s_blocks_is_not_seen_in_the_bits():
    kernel = load("22_fp32_summit").scheduled_for(5)
    assert len({C.tobytes() for C in results_in_orders(kernel, 384, 512, 320, orders=3)}) == 1
