"""The ceilings of wgmma in the simulator, and what is made of clocks and counters of energy."""

from statistics import StatisticsError

import numpy as np
import pytest

import ptxsim
from gemmlab.cuda.options import options_for
from gemmlab.ladder.probes import WGMMA_CEILINGS
from gemmlab.measure import ceilings, power
from gemmlab.measure.ceilings import WgmmaCeiling

WAYS = (
    WgmmaCeiling(0), WgmmaCeiling(0, in_registers=True), WgmmaCeiling(1, columns=128),
    WgmmaCeiling(4), WgmmaCeiling(4, columns=128, in_registers=True),
)  # fmt: skip


@pytest.mark.parametrize("ceiling", WAYS, ids=str)
def test_the_ceiling_of_wgmma_has_a_twin(ceiling):
    shape, steps = WGMMA_CEILINGS.launch(1), ceilings.CHECK_STEPS
    out = np.full(shape.block[0], np.nan, np.float32)
    numbers = ceilings.wgmma_operands(ceiling)
    rows = [ceilings.words(number, ceiling.precision.a) for number in numbers]
    run = ptxsim.launch(
        WGMMA_CEILINGS.path, WGMMA_CEILINGS.entry, shape.grid, shape.block,
        [out, *rows, np.int32(2), np.int32(steps)], options=options_for(ceiling.macros),
        check=True, count=True,
    )  # fmt: skip
    assert not run.findings
    expected = ceilings.wgmma_chain(ceiling, steps)
    assert np.array_equal(out, expected) and np.any(expected)
    assert 2 * run.multiply_adds == ceiling.step.flop * 2 * steps


def test_the_clock_is_cycles_over_time_of_those_sms_that_were_read_twice():
    before = np.array([[1_000_000, 5_000], [70, 5_000], [0, 0], [9, 5_000]])
    since = np.array([[1_500_000, 1_000_000], [1_700_000, 1_000_000], [12, 34], [0, 0]])
    after = before + since
    assert power.clock_mhz(before, after) == 1600
    with pytest.raises(StatisticsError):
        power.clock_mhz(before, before)


def test_power_is_between_the_first_and_the_last_time_that_the_counter_moved():
    seconds = np.arange(0, 1, 0.01)
    counted = 700 * (seconds // 0.08 * 0.08)  # renewed every 0.08 s
    samples = list(zip(seconds, counted, strict=True))
    assert power.mean_power_w(samples) == pytest.approx(700, rel=0.02)
    assert power.mean_power_w([(0.0, 5.0), (0.5, 5.0), (1.0, 9.0)]) is None
    assert power.mean_power_w([]) is None
