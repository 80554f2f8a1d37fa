"""What becomes of the parts of a tile in 12_split_k, whichever way joins them: in the simulator."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas

from gemmlab.cuda.options import options_for
from gemmlab.kernel import in_simulator
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import IllegalSetting
from gemmlab.ladder.launch import multiplying
from gemmlab.ladder.settings import ALONE, JOINS, SECOND_KERNEL, STREAM_K
from gemmlab.loading import load

RUNG = "12_split_k"


def kernels(
    joins: tuple[int, ...] = tuple(range(len(JOINS))), **settings: int
) -> dict[str, Kernel]:
    """A kernel for each way to join that there is with these settings, by its name."""
    made = {}
    for join in joins:
        of_join = settings | {"JOIN": join} | ({"SPLIT": 1} if join in (ALONE, STREAM_K) else {})
        try:
            made[JOINS[join]] = load(RUNG, **of_join)
        except IllegalSetting:
            continue
    return made


def in_orders(
    m: int, n: int, k: int, orders: int, sm_count: int, **settings: int
) -> pandas.DataFrame:
    """How results of the same product differ with its blocks run in several orders, of a seed.

    A row for each way to join in one launch. The blocks of a cluster stay together.
    """
    joins = tuple(join for join in range(len(JOINS)) if join not in (ALONE, SECOND_KERNEL))
    rows = {}
    for name, kernel in kernels(joins, **settings).items():
        results = list(results_in_orders(kernel.scheduled_for(sm_count), m, n, k, orders))
        bits = np.stack([result.view(np.uint32) for result in results])
        different = len({result.tobytes() for result in results})
        rows[name] = [orders, different, int((bits != bits[0]).any(axis=0).sum())]
    columns = ["orders", "different results", "elements that differ"]
    return pandas.DataFrame.from_dict(rows, orient="index", columns=columns)


def results_in_orders(kernel: Kernel, m: int, n: int, k: int, orders: int) -> Iterator[np.ndarray]:
    """C of the same product in the simulator, its blocks run in so many orders, those of a seed."""
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
