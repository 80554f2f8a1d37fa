"""A product over ranks: the schedules' results, bits and bytes, and the order of their steps."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

import ptxsim
from gemmlab.kernel.operands import Operands, random_matrix
from gemmlab.ladder import Problem
from gemmlab.ladder.precision import BRAIN, HALF, SINGLE
from gemmlab.lessons.multi_gpu import in_turn, order
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu.gpus import rank_sum
from gemmlab.lessons.multi_gpu.in_turn import ByKernel
from gemmlab.lessons.multi_gpu.schedules import ScheduleError, length, parts

SHAPES = [(37, 29, 41), (24, 8, 16), (20, 5, 5)]
UNEVEN = Problem(37, 29, 41)
RUNG = "03_shared_memory"
SMALL_TILES = {"DTYPE": 1, "BM": 64, "BN": 64, "STAGES": 2, "CLUSTER": 1}


def every(problem):
    """One rank; both parallel products on 1 to 5 ranks in 1 to 4 chunks."""
    return [make.one_rank(problem)] + [
        maker(problem, ranks, chunks)
        for maker in (make.column_parallel, make.row_parallel)
        for ranks, chunks in product((1, 2, 3, 5), (1, 2, 3, 4))
    ]


def matrices(problem, precision=SINGLE):
    operands = Operands.from_seed(problem, precision, 7)
    return operands.A, operands.B


class Whole:
    """float64, exact for the small whole numbers that it is given."""

    def encoded(self, values, matrix):
        return values

    def empty(self, rows, columns, matrix):
        return np.full((rows, columns), np.nan)

    def multiply(self, a, b, c):
        c[...] = a @ b

    def total(self, terms, into):
        into[...] = sum(terms)


# ---- ranks ---------------------------------------------------------------------------------------


def test_parts_cover_all_and_differ_by_one():
    for size, count in product(range(12), range(1, 6)):
        ranges = parts(size, count, start=3)
        assert ranges[0][0] == 3 and ranges[-1][1] == size + 3
        assert all(before[1] == after[0] for before, after in pairwise(ranges))
        lengths = list(map(length, ranges))
        assert max(lengths) - min(lengths) <= 1 and lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make.column_parallel(UNEVEN, 5, 8), "37×29×41 has too little .* an M of 40 or"),
        (lambda: make.row_parallel(Problem(9, 9, 2), 3), "an N and a K of 3 or more"),
    ],
)
def test_a_product_with_too_little_for_each_rank_is_refused(call, message):
    with pytest.raises(ScheduleError, match=message):
        call()


# ---- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_schedule_gives_the_product_of_any_shape(shape):
    problem, random = Problem(*shape), np.random.default_rng(1)
    A, B = (random.integers(-9, 9, sizes).astype(float) for sizes in (shape[::2], shape[:0:-1]))
    for schedule in every(problem):
        assert (in_turn.run(schedule, Whole(), A, B) == A @ B).all(), schedule


@pytest.mark.parametrize(
    ("rung", "settings", "precision", "problem"),
    [
        (RUNG, {}, SINGLE, Problem(48, 40, 56)),
        ("14_wmma", {}, HALF, Problem(16, 16, 96)),
        # Whole rows begin at multiples of 16 bytes, those of a part do not: another kernel each.
        ("18_persistent", SMALL_TILES, BRAIN, Problem(37, 24, 200)),
    ],
    ids=["float32", "float16", "bfloat16"],
)
def test_bits_are_those_of_one_rank_unless_sums_are_cut_and_then_within_the_bound(
    rung, settings, precision, problem
):
    A, B = matrices(problem, precision)
    by = ByKernel(rung, settings)
    alone = in_turn.run(make.one_rank(problem), by, A, B)
    for schedule in (make.column_parallel(problem, 2), make.row_parallel(problem, 3)):
        C = in_turn.run(schedule, by, A, B)
        same = (C.view(precision.c.bits) == alone.view(precision.c.bits)).all()
        assert same == (schedule.name == make.COLUMN), schedule
        expected, bound = in_turn.bounded(schedule, precision, A, B)
        assert (abs(precision.c.decode(C) - expected) <= bound).all(), schedule


def test_the_bound_finds_a_lost_term():
    A, B = matrices(UNEVEN)
    schedule = make.row_parallel(UNEVEN, 2)
    expected, bound = in_turn.bounded(schedule, SINGLE, A, B)
    half = slice(0, 21)
    assert (abs(A[:, half].astype(float) @ B[half] - expected) > bound).mean() > 0.9


# ---- bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4])
def test_bytes_that_come_in_are_those_of_the_formulas(ranks):
    m = n = k = 32
    problem, others = Problem(m, n, k), (ranks - 1) / ranks
    for schedule, elements in (
        (make.column_parallel(problem, ranks, 2), others * m * k),
        (make.row_parallel(problem, ranks, 2), others * m * n),
    ):
        for rank in range(ranks):
            assert schedule.received_bytes(rank, SINGLE) == 4 * elements


# ---- order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_schedule_races(shape):
    for schedule in every(Problem(*shape)):
        assert order.findings(schedule) == [], schedule


def test_every_event_is_needed_or_follows_from_others():
    """Left out, one by one, each is a race or read of nothing, but for those of a sum."""
    for schedule in (make.column_parallel(UNEVEN, 2, 3), make.row_parallel(UNEVEN, 2, 3)):
        missed = [
            (step.name, event)
            for rank, step in schedule
            for event in step.after
            if not order.findings(schedule.without(rank, step.name, event))
        ]
        # A sum comes behind its exchange, which waits for the same product; a product that waits
        # for the sum need not wait for the exchange before it.
        assert all(
            name.startswith("sum") or event.startswith("exchange") for name, event in missed
        ), missed


def test_a_missing_event_is_named():
    schedule = make.column_parallel(UNEVEN, 2, 3)
    unread = schedule.without(0, "product 1", "gather 1")
    assert any(
        "rank 0: 'product 1' reads A slot 1[0:6] while 'gather 1' may write it" in finding
        for finding in order.findings(unread)
    )
    overtaken = schedule.without(1, "gather 2", "product 0")
    (finding,) = order.findings(overtaken)
    assert "'gather 2' writes A slot 0" in finding and "'product 0' may read" in finding
    assert order.findings(overtaken.with_event(1, "gather 2", "product 0")) == []


def test_ranks_that_never_meet_are_named():
    schedule = make.column_parallel(UNEVEN, 2, 2)
    steps = list(schedule.steps[1])
    at = [step.name for step in steps].index("gather 1")
    steps.insert(0, steps.pop(at))
    with pytest.raises(ScheduleError, match="each for the next: 'gather"):
        order.in_order(replace(schedule, steps=(schedule.steps[0], tuple(steps))))


# ---- the sum's kernel -------------------------------------------------------------


@pytest.mark.parametrize("precision", [SINGLE, HALF, BRAIN], ids=lambda precision: precision.name)
def test_the_kernel_of_the_sum_gives_the_bits_of_numpy(precision):
    element, terms, count = precision.c, 3, 700
    values = random_matrix(terms, count, 5) * 10.0 ** np.arange(terms)[:, None]
    stored = element.encode(values.astype("f4"), element.storage)
    expected = np.empty(count, element.storage)
    by = ByKernel(RUNG)
    by.precision = precision
    by.total(list(stored), expected)
    into = np.zeros(count, element.storage)
    addresses = ptxsim.Pointers(stored, count * np.arange(terms))
    options = rank_sum.options_for(rank_sum.macros(terms, element))
    ptxsim.launch(
        rank_sum.PATH, rank_sum.ENTRY, (2, 1, 1), (rank_sum.THREADS, 1, 1),
        [addresses, into, np.int64(count)], options=options,
    )  # fmt: skip
    assert (into.view(element.bits) == expected.view(element.bits)).all()
