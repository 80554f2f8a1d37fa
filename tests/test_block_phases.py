"""Where the time of a block goes: means of its phases, and the figure of an SM's blocks."""

import pandas

from gemmlab.lessons.tma_wgmma import clock_readings
from gemmlab.lessons.tma_wgmma import tables as block_phases
from gemmlab.lessons.tma_wgmma.tables import TENSOR_FLOP_PER_CYCLE
from gemmlab.lessons.warp_specialized import figures
from gemmlab.records import wgmma_ceilings

BLOCKS = pandas.DataFrame(
    [
        ("16_tma_wgmma", 0, 0, 0, 10, 90, 100), ("16_tma_wgmma", 132, 0, 104, 110, 194, 200),
        ("16_tma_wgmma", 1, 1, 0, 20, 90, 100), ("16_tma_wgmma", 133, 1, 108, 116, 194, 210),
        ("17_warp_specialized", 0, 0, 0, 10, 90, 94),
        ("17_warp_specialized", 132, 0, 95, 99, 180, 184),
    ],
    columns=["kernel", "block", "sm", "began", "first", "summed", "stored"],
)  # fmt: skip


def test_phases_are_means_and_the_pause_is_between_two_blocks_of_an_sm():
    means = block_phases.phases(BLOCKS)
    of_16 = means.loc["16_tma_wgmma"]
    assert of_16["until the first tiles are there"] == (10 + 6 + 20 + 8) / 4
    assert of_16["steps along K"] == (80 + 84 + 70 + 78) / 4
    assert of_16["C on its way"] == (10 + 6 + 10 + 16) / 4
    assert of_16["until the next block begins"] == (4 + 8) / 2
    phases = list(block_phases.PHASES.values())
    assert of_16["a block"] == of_16[phases].sum()
    assert means.loc["17_warp_specialized", "until the next block begins"] == 1


def test_all_blocks_of_an_sm_are_drawn_and_the_full_rate():
    means = block_phases.phases(BLOCKS)
    above, below = figures.block_phases(BLOCKS, means, 60.0).axes
    drawn = {(box.get_gid(), int(box.get_y())): box for box in above.patches}
    steps = drawn["first 132", 0]
    assert (steps.get_x(), steps.get_width()) == (110, 84)
    pause = drawn["stored 0", 0]
    assert (pause.get_x(), pause.get_width()) == (100, 4) and ("stored 132", 0) not in drawn
    marks = [line.get_xdata()[0] for line in below.lines if line.get_gid() == "full rate"]
    assert marks == [mean + 60 for mean in means["until the first tiles are there"]]


def test_the_full_rate_of_an_sm_is_above_what_wgmma_alone_was_measured_at():
    table = wgmma_ceilings.ceilings()
    fp16 = table[table["dtype"] == "float16"]
    rates = fp16["tflops"] * 1e12 / (132 * fp16["sm_clock_mhz"] * 1e6)
    assert rates.between(0.95 * TENSOR_FLOP_PER_CYCLE, 1.001 * TENSOR_FLOP_PER_CYCLE).all()
    assert block_phases.at_full_rate() == 64 * 1024


def test_what_the_notebook_concludes_from_the_recorded_blocks():
    """The steps gain nothing; most of what 17 saves is the way of C; its own start is longer."""
    means = block_phases.phases()
    steps = means["steps along K"] / block_phases.at_full_rate()
    assert steps.between(1, 1.01).all()
    saved = means.loc["16_tma_wgmma"] - means.loc["17_warp_specialized"]
    assert saved["C on its way"] > saved["a block"] / 2
    assert saved["until the next block begins"] > 0 > saved["until the first tiles are there"]


def test_the_producer_waits_and_nothing_waits_for_it():
    marks = clock_readings.marks().query("kernel == '17_warp_specialized' and 16 < step < 60")
    of = marks.groupby("role")[["waits", "goes_on", "done"]]
    waits = of.apply(lambda rows: (rows["goes_on"] - rows["waits"]).median())
    works = of.apply(lambda rows: (rows["done"] - rows["goes_on"]).median())
    assert waits["producer"] > works["producer"]
    for group in ("warpgroup 0", "warpgroup 1"):
        assert waits[group] < works[group] / 2
