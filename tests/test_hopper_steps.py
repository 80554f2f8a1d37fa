"""What is recorded of 16 to 18: bits of an H200 beside the simulator's, steps, clock readings."""

from itertools import pairwise

import numpy as np
import pandas
import pytest

import gemmlab as gl
from gemmlab import ladder
from gemmlab.kernel.compiler import compile_kernel
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import written
from gemmlab.lessons.persistent import measure
from gemmlab.lessons.persistent.measure import MARKED, MOST, ROLES, SM
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.tma_wgmma import clock_readings
from gemmlab.lessons.tma_wgmma import measure as hopper_steps
from gemmlab.lessons.tma_wgmma import tables as block_phases
from gemmlab.lessons.tma_wgmma.measure import ROADS, TYPES, WAY
from gemmlab.lessons.tma_wgmma.tables import TENSOR_FLOP_PER_CYCLE
from gemmlab.lessons.warp_specialized.tables import stores as stores_of
from gemmlab.records import runs
from gemmlab.records.ablations import HUGE
from gemmlab.records.roofs import WGMMA_TABLE
from gemmlab.records.runs import Measured

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
    settings = written(step.all_settings)
    return table[(table.step == step.title) & (table.settings == settings)].iloc[0]


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
    (step,) = (road for road in ROADS if road.changes)
    kernel = Kernel(
        step.rung, ladder.settings_for(step.rung, {"BM": 64, "BN": 64, "CLUSTER": 1}), "sm_90a",
        step.source,
    ).scheduled_for(1)  # fmt: skip
    boxes = kernel.trace(512, 512, 8).run.boxes()
    sent = [box.corner for box in boxes if box.operation == "store"]
    assert len(sent) == len(set(sent)) == 64
    steps = [abs(a - c) + abs(b - d) for (a, b), (c, d) in pairwise(sent)]
    assert set(steps) == {64}


@pytest.mark.parametrize(("group", "down", "across"), [(1, 1, 8), (4, 4, 2)])
def test_the_tiles_of_a_wave_lie_in_groups_of_rows(group, down, across):
    """By the corners of the first tile that each of 8 blocks sends, of a C of 8×8 tiles."""
    kernel = gl.load("18_persistent", BM=64, BN=64, CLUSTER=1, GROUP=group).scheduled_for(8)
    run = kernel.trace(512, 512, 8).run
    sent = [
        next(box.corner for box in run.boxes((block, 0, 0)) if box.operation == "store")
        for block in range(8)
    ]
    wave = [(64 * row, 64 * column) for row in range(down) for column in range(across)]
    assert sorted(sent) == wave


def test_one_that_forgets_its_later_tiles_does_not_pass_verification():
    text = PERSISTENT.path.read_text(encoding="utf-8")
    assert text.count("number += clusters;") == 2
    only_first = text.replace("number += clusters;", "number = 1 << 30;")
    report = gl.from_source(only_first, PERSISTENT.name, CLUSTER=1, BM=64, BN=128, STAGES=2).verify(
        seed=2
    )
    assert not report.passed and any("never written" in case.message for case in report.cases)


# ---- clock readings ------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [*clock_readings.IN_BLOCKS, *MARKED], ids=lambda step: step.title)
def test_a_kernel_with_marks_compiles_and_spills_nothing(step):
    compiled = compile_kernel(step.source, step.rung.path.name, macros=step.all_settings)
    assert compiled.entries[step.rung.entry(step.all_settings)].spilled_bytes == 0
    assert "%smid" in compiled.ptx and compiled.ptx.count("%clock64") >= 4


def test_blocks_are_in_their_order_on_each_sm():
    read = ((500, 510, 590, 600), (0, 10, 90, 100), (40, 41, 42, 43), (110, 120, 190, 200))
    rows = clock_readings.rows_of(np.array(read), np.array([1, 1, clock_readings.SMS, 1]))
    assert [(row["block"], row["sm"], row["began"], row["stored"]) for row in rows] == [
        (1, 1, 0, 100), (3, 1, 110, 200), (0, 1, 500, 600),
    ]  # fmt: skip


def test_only_tiles_of_the_first_ones_sm_are_kept_in_the_order_of_their_clocks():
    marks = np.zeros((MOST, len(ROLES), SM + 1), np.int64)
    for tile, sm, start in ((0, 7, 5000), (1, 3, 5000), (9, 7, 9000), (4, 7, 7000)):
        marks[tile, :, 1], marks[tile, :, SM] = start, sm
        marks[tile, 0, 0] = start - 100
    rows = pandas.DataFrame(measure.on_one_sm(marks))
    assert list(rows["role"]) == 3 * list(ROLES)
    assert list(rows.loc[rows["role"] == ROLES[0], "starts"]) == [101, 2101, 4101]
    assert rows["begins"].notna().sum() == 3 and rows["begins"].min() == 1
    assert rows[["ends", "sent", "gone"]].isna().all(axis=None)


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
    assert of_16["prologue, until the first stage is full"] == (10 + 6 + 20 + 8) / 4
    assert of_16["mainloop"] == (80 + 84 + 70 + 78) / 4
    assert of_16["epilogue: C is stored"] == (10 + 6 + 10 + 16) / 4
    assert of_16["until the next block begins"] == (4 + 8) / 2
    phases = list(block_phases.PHASES.values())
    assert of_16["a block"] == of_16[phases].sum()
    assert means.loc["17_warp_specialized", "until the next block begins"] == 1


def test_the_full_rate_of_an_sm_is_above_what_wgmma_alone_was_measured_at():
    table = WGMMA_TABLE.read()
    fp16 = table[table["dtype"] == "float16"]
    rates = fp16["tflops"] * 1e12 / (132 * fp16["sm_clock_mhz"] * 1e6)
    assert rates.between(0.95 * TENSOR_FLOP_PER_CYCLE, 1.001 * TENSOR_FLOP_PER_CYCLE).all()


# ---- the account of cycles -----------------------------------------------------------------------


def test_the_account_is_per_wgmma_and_as_many_as_the_gpu_counted():
    names = ["15_mma_sync", "16_tma_wgmma", "17_warp_specialized", "18_persistent"]
    table = block_phases.account(*names)
    assert (table["floor"] < table["SM cycles"]).all()
    assert list(table["floor"][1:]) == [2 * 64 * 256 * 16 / TENSOR_FLOP_PER_CYCLE] * 3
    assert table["SM cycles"].is_monotonic_decreasing
    for name in names[1:]:
        _, counted = runs.counters_at(Measured(ladder.find(name)), *runs.LARGE)
        warps = counted["sm__inst_executed_pipe_tensor_op_gmma.sum"]
        cycles = counted["sm__cycles_active.sum"] / (warps / 4)
        assert table.loc[name, "SM cycles"] == pytest.approx(cycles)


def test_wgmma_reads_each_operand_once_for_each_warpgroup():
    assert block_phases.operand_wavefronts("15_mma_sync") == (4 * 128 + 2 * 256) * 128 // 128
    assert block_phases.operand_wavefronts("16_tma_wgmma") == 2 * (64 + 256) * 128 // 128


def test_tma_stores_every_sector_of_a_tile_once():
    table = stores_of("16_tma_wgmma", "17_warp_specialized")
    sectors = 128 * 256 * 2 // 32
    assert list(table.loc["sectors stored"]) == [2 * sectors, sectors]
    assert list(table.loc["store instructions"]) == [512, 8]
