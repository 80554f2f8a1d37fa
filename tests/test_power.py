"""The ceilings of wgmma in the simulator, and what is made of clocks and counters of energy."""

import numpy as np
import pandas
import pytest
import sample_record

import ptxsim
from gemmlab.cuda.device import Gpu
from gemmlab.cuda.options import options_for
from gemmlab.ladder.probes import WGMMA_CEILINGS
from gemmlab.lessons.tma_wgmma import figures
from gemmlab.measure import power, wgmma_ceilings
from gemmlab.measure.wgmma_ceilings import Ceiling
from gemmlab.records import registry
from gemmlab.records import wgmma_ceilings as ceilings_record

LAST = "18_persistent"
HERE = Gpu("NVIDIA H200", (9, 0), "sm_90a", 132, 2**37, 60 * 2**20, "580", "13.0")
WAYS = (Ceiling(0), Ceiling(0, in_registers=True), Ceiling(1, columns=128), Ceiling(4),
        Ceiling(4, columns=128, in_registers=True))  # fmt: skip


@pytest.mark.parametrize("ceiling", WAYS, ids=str)
def test_the_ceiling_of_wgmma_has_a_twin(ceiling):
    shape, steps = WGMMA_CEILINGS.launch(1), wgmma_ceilings.CHECK_STEPS
    out = np.full(shape.block[0], np.nan, np.float32)
    numbers = wgmma_ceilings.operands(ceiling)
    rows = [wgmma_ceilings.words(one, ceiling.precision) for one in numbers]
    run = ptxsim.launch(
        WGMMA_CEILINGS.path, WGMMA_CEILINGS.entry, shape.grid, shape.block,
        [out, *rows, np.int32(2), np.int32(steps)], options=options_for(ceiling.macros),
        check=True, count=True,
    )  # fmt: skip
    assert not run.findings
    expected = wgmma_ceilings.chain(ceiling, steps)
    assert np.array_equal(out, expected) and np.any(expected)
    assert 2 * run.multiply_adds == ceiling.step.flop * 2 * steps


def test_the_clock_is_cycles_over_time_of_those_sms_that_were_read_twice():
    before = np.array([[1_000_000, 5_000], [70, 5_000], [0, 0], [9, 5_000]])
    since = np.array([[1_500_000, 1_000_000], [1_700_000, 1_000_000], [12, 34], [0, 0]])
    after = before + since
    assert power.clock_mhz(before, after) == 1600
    with pytest.raises(ValueError, match="No SM was read twice"):
        power.clock_mhz(before, before)


def test_power_is_between_the_first_and_the_last_time_that_the_counter_moved():
    seconds = np.arange(0, 1, 0.01)
    counted = 700 * (seconds // 0.08 * 0.08)  # renewed every 0.08 s
    assert power.mean_power_w(list(zip(seconds, counted, strict=True))) == pytest.approx(
        700, rel=0.02
    )
    assert power.mean_power_w([(0.0, 5.0), (0.5, 5.0), (1.0, 9.0)]) is None
    assert power.mean_power_w([]) is None


def test_energy_is_power_over_rate():
    assert power.Pace(700e12, 1400, power_w=700).joules_per_tflop == 1
    assert power.Pace(700e12, 1400).joules_per_tflop is None


# ---- what is recorded ----------------------------------------------------------------------------


def test_what_is_measured_can_be_read_back(monkeypatch, tmp_path):
    """With a stand-in for the GPU: every row has the code that it would be measured with now."""
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    sample_record.measure_on(monkeypatch, ceilings_record, gpu=HERE)
    speeds = iter(range(600, 700))
    monkeypatch.setattr(
        ceilings_record, "measure",
        lambda ceiling, zeros, pace: power.Pace(next(speeds) * 1e12, 1400, power_w=700),
    )  # fmt: skip
    path = ceilings_record.EVIDENCE.remake(lambda _: None)
    (path.parent / registry.RUNS).write_text("{}")
    monkeypatch.setenv("GEMMLAB_RECORDS", HERE.slug)
    table = ceilings_record.EVIDENCE.read()
    ways = sum(len(data) for _, data in ceilings_record.MEASURED)
    assert len(table) == 2 * ways and set(table["sms"]) == {132}
    assert table["joules_per_tflop"].tolist() == pytest.approx(
        list(700 / table["tflops"]), rel=1e-5
    )
    shown = ceilings_record.ceilings()
    assert shown["tflops"].tolist() == list(range(600, 600 + 2 * ways))


def test_ceilings_are_drawn_in_a_burst_and_sustained():
    rows = [
        (place, load, speed)
        for place, both in (("shared memory", (800, 640)), ("registers", (810, 650)))
        for load, speed in zip(("burst", "sustained"), both, strict=True)
    ]
    table = pandas.DataFrame(rows, columns=["a_from", "load", "tflops"]).assign(
        dtype="float16", width=256, data="random", sm_clock_mhz=1500.0, joules_per_tflop=1.0,
        gpu="NVIDIA H200", recorded="2026-11-23",
    )  # fmt: skip
    figure = figures.wgmma_ceilings(table)
    speeds, *_ = figure.axes
    drawn = {line.get_gid(): float(line.get_xdata()[0]) for line in speeds.lines}
    assert drawn == {"burst 0": 800, "sustained 0": 640, "burst 1": 810, "sustained 1": 650}
    assert "800 in a burst on random numbers" in figure.caption


def test_kernels_are_drawn_beside_cublas_under_each_load():
    rows = [
        (kernel, data, load, speed)
        for kernel, speeds in (("cublas", (800, 660, 820, 700)), (LAST, (816, 693, 1, 2)))
        for (data, load), speed in zip(
            ((data, load) for data in ("random", "zeros") for load in ("burst", "sustained")),
            speeds, strict=True,
        )
    ]  # fmt: skip
    table = pandas.DataFrame(rows, columns=["kernel", "data", "load", "tflops"]).assign(
        dtype="float16", sm_clock_mhz=1500.0, joules_per_tflop=1.0, m=8192, n=8192, k=8192,
        gpu="NVIDIA H200", recorded="2026-11-23",
    )  # fmt: skip
    figure = figures.power(table[table["data"] == "random"])
    speeds, *_ = figure.axes
    drawn = {line.get_gid(): float(line.get_xdata()[0]) for line in speeds.lines}
    assert drawn == {
        "cublas 0": 800,
        "18_persistent 0": 816,
        "cublas 1": 660,
        "18_persistent 1": 693,
    }
    assert "102.0 to 105.0 %" in figure.caption and "660 to 800" in figure.caption
