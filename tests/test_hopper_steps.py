"""What is recorded of 16 to 18: bits of an H200 beside the simulator's, steps, clock readings."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gemmlab import ladder
from gemmlab.kernel.compiler import compile_kernel
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import written
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.tma_wgmma import clock_readings
from gemmlab.lessons.tma_wgmma import measure as hopper_steps
from gemmlab.lessons.tma_wgmma.measure import EVERY, ROADS, TYPES, WAY
from gemmlab.lessons.warp_specialized import figures
from gemmlab.records.ablations import HUGE
from gemmlab.records.runs import LARGE

KINDS = {  # one step for each way to read A and B and to write C
    (
        step.rung.name,
        step.all_settings["DTYPE"],
        step.all_settings["OP_B"],
        step.all_settings["OUT32"],
    ): step
    for step in (*WAY, *TYPES)
}


def row_of(step):
    table = hopper_steps.TABLE.read()
    return table[(table.step == step.title) & (table.settings == written(step.all_settings))].iloc[
        0
    ]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_simulator_has_the_bits_of_the_gpu(kind):
    step = KINDS[kind]
    assert hopper_steps.bits_of(step.kernel()) == row_of(step).sha256


OTHERWISE = [step for step in ROADS if step.changes or step.plan]


@pytest.mark.parametrize("step", OTHERWISE, ids=lambda step: step.title)
def test_a_road_that_was_not_taken_has_the_same_bits(step):
    assert hopper_steps.bits_of(step.kernel()) == hopper_steps.bits_of(WAY[-1].kernel())
    large = step.kernel().grid(*HUGE)
    assert (large == (132, 1, 1)) == (step.title == "a block on each SM")


def test_hilberts_curve_goes_from_tile_to_neighbour_and_leaves_none_out():
    """By the corners of the tiles that a single block sends, of a C of 8×8 tiles."""
    (step,) = (one for one in ROADS if one.changes)
    kernel = Kernel(
        step.rung, ladder.settings_for(step.rung, {"BM": 64, "BN": 64, "CLUSTER": 1}), "sm_90a",
        step.source,
    ).scheduled_for(1)  # fmt: skip
    boxes = kernel.trace(512, 512, 8).run.boxes()
    sent = [box.corner for box in boxes if box.operation == "store"]
    assert len(sent) == len(set(sent)) == 64
    steps = [abs(a - c) + abs(b - d) for (a, b), (c, d) in pairwise(sent)]
    assert set(steps) == {64}


def test_a_change_of_a_line_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="stands 0 times in 18_persistent"):
        _ = replace(WAY[-1], changes=(("nothing", ""),)).source


def test_the_way_and_all_types_are_recorded_and_nothing_that_is_no_step():
    table = hopper_steps.TABLE.read()
    recorded = set(zip(table.step, table.settings, table.m, table.n, table.k, strict=True))

    def rows(steps):
        return {(s.title, written(s.all_settings), *shape) for s in steps for shape in s.shapes}

    assert rows((*WAY, *TYPES)) <= recorded <= rows(EVERY)


def test_the_way_is_shown_in_its_order():
    shown = hopper_steps.steps()
    titles = hopper_steps.TITLES
    assert set(titles) < {step.title for step in WAY}
    assert list(dict.fromkeys(shown["step"])) == [titles.get(s.title, s.title) for s in WAY]
    assert shown["M×N×K"].iloc[0] == "×".join(map(str, LARGE))


# ---- clock readings ------------------------------------------------------------------------------


def test_the_readings_of_each_role_are_in_order():
    marks = clock_readings.marks()
    for _, rows in marks.groupby(["kernel", "role"]):
        assert list(rows["step"]) == list(range(1, clock_readings.STEPS + 1))
        assert (rows["waits"] <= rows["goes_on"]).all() and (rows["goes_on"] <= rows["done"]).all()
        assert rows["waits"].is_monotonic_increasing
    roles = marks.groupby("kernel")["role"].nunique()
    assert roles["16_tma_wgmma"] == 2 and roles["17_warp_specialized"] == 3


def test_a_line_that_is_not_there_cannot_be_marked():
    marked = clock_readings.IN_STEPS[0]
    with pytest.raises(ValueError, match="stands 0 times"):
        _ = replace(marked, rung=PERSISTENT).source


@pytest.mark.parametrize(
    "step", (*clock_readings.IN_STEPS, *clock_readings.IN_BLOCKS), ids=lambda step: step.title
)
def test_kernels_with_marks_compile_without_a_spill(step):
    compiled = compile_kernel(step.source, "marked.cu", macros=step.all_settings)
    assert compiled.entries[step.rung.entry(step.all_settings)].spill_store_bytes == 0


def test_blocks_are_in_their_order_on_each_sm():
    read = ((500, 510, 590, 600), (0, 10, 90, 100), (40, 41, 42, 43), (110, 120, 190, 200))
    rows = clock_readings.rows_of(np.array(read), np.array([1, 1, clock_readings.SMS, 1]))
    assert [(row["block"], row["sm"], row["began"], row["stored"]) for row in rows] == [
        (1, 1, 0, 100), (3, 1, 110, 200), (0, 1, 500, 600),
    ]  # fmt: skip


def test_waits_are_drawn_from_their_readings():
    marks = clock_readings.marks()
    figure = figures.waits(marks, first=20, steps=4)
    panels = [ax for ax in figure.axes if str(ax.get_gid()).startswith("waits ")]
    assert len(panels) == 2
    lead = marks[(marks.kernel == "16_tma_wgmma") & (marks.role == "warpgroup 0")].set_index("step")
    (bar,) = (one for one in panels[0].patches if one.get_gid() == "goes_on 21" and one.get_y() < 1)
    assert bar.get_x() == lead.loc[21, "goes_on"] - lead.loc[20, "waits"]
    assert bar.get_width() == lead.loc[21, "done"] - lead.loc[21, "goes_on"]
