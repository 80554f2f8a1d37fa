"""What notebooks 01 to 03 draw and list of the records: cycles, banks of L1, waits."""

import pytest
from figures import test_it_can_be_read, the_one  # noqa: F401

import gemmlab as gl
from gemmlab.lessons.bank_conflicts.figures import gain
from gemmlab.lessons.naive import figures, tables
from gemmlab.records import runs

RUNGS = "01_naive", "02_coalescing", "03_shared_memory"


def test_an_account_has_the_cycles_that_were_counted():
    table = figures.account(*RUNGS)
    total, banks, units = (table[column] for column in figures.LOOKS)
    assert total.round(2).tolist() == [33.46, 2.54, 1.75]
    assert banks.round(2).tolist() == [33.01, 2.0, 1.64] and (banks < total).all()
    assert units.to_list() == pytest.approx([0.25] * 3, rel=1e-3)  # 128 units, 32 lanes


def test_a_gain_is_that_of_the_records():
    caption = gain(tables.benchmarks(*RUNGS[1:]), *RUNGS[1:]).caption
    before, after = (runs.replay_at(gl.load(name), *runs.LARGE) for name in RUNGS[1:])
    assert f"{after.gflops / before.gflops:.2f} times as fast" in caption


@pytest.fixture(
    params=(
        lambda: figures.cycles(*RUNGS[:1]),
        lambda: figures.cycles(*RUNGS),
        lambda: figures.l1_banks(gl.load("01_naive"), (64, 65)),
    ),
    ids=("cycles", "cycles of three", "l1_banks"),
)
def figure(request):
    return request.param()
