"""Figures of lessons draw what their tables, readings and schedules say, and can be read."""

from functools import cache, partial

import pandas
import pytest
from figures import axes, by_gid, test_it_can_be_read, the_one, words  # noqa: F401

import gemmlab as gl
from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.precision import E5M2
from gemmlab.ladder.probes import MMA_TYPES as TYPES
from gemmlab.lessons.batched import figures as batched_figures
from gemmlab.lessons.batched.tables import copy_of
from gemmlab.lessons.fp8 import figures as fp8_figures
from gemmlab.lessons.fp8 import scales
from gemmlab.lessons.fp8 import tables as fp8_tables
from gemmlab.lessons.fp8.quantize import ELEMENTS
from gemmlab.lessons.fp32_summit import figures as fp32_summit_figures
from gemmlab.lessons.fp32_summit.figures import BEGINS, GOES_ON, WHOLE
from gemmlab.lessons.fp32_summit.rung import BM, BN
from gemmlab.lessons.fp32_summit.sharing import shared_tiles, sharing
from gemmlab.lessons.mma_sync import figures as mma_sync_figures
from gemmlab.lessons.persistent import figures as persistent_figures
from gemmlab.lessons.persistent.measure import EVENTS, ROLES
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.persistent.schedule import schedule
from gemmlab.lessons.split_k.figures import waves
from gemmlab.lessons.split_k.work import work
from gemmlab.lessons.tma_wgmma import clock_readings
from gemmlab.lessons.tma_wgmma import figures as tma_wgmma_figures
from gemmlab.lessons.tma_wgmma import tables as tma_wgmma_tables
from gemmlab.lessons.warp_specialized import figures, turns
from gemmlab.lessons.warp_specialized.tables import register_budget
from gemmlab.lessons.wmma import fragments

LAST = PERSISTENT.name

# ---- copies of a warp ----------------------------------------------------------------------------


@cache
def warp_copies():
    small = {"BM": 32, "BN": 32, "BK": 32, "TM": 8, "TN": 4, "STAGES": 2}
    traces = [
        gl.load("13_batched", **small, OP_A=op, OP_B=op).trace(32, 32, 32, batch=1) for op in (0, 1)
    ]
    return {
        f"{array}, {'NT'[op]}": copy_of(trace, array)
        for array in "AB"
        for op, trace in enumerate(traces)
    }


def test_each_lane_is_drawn_in_the_matrix_and_in_the_banks():
    figure = batched_figures.copies(warp_copies())
    for name, copy in warp_copies().items():
        piece, banks = axes(figure, f"piece {name}"), axes(figure, f"banks {name}")
        for lane in range(32):
            (source,) = [box for box in by_gid(piece, "lane") if box.get_gid() == f"lane {lane}"]
            (target,) = [box for box in by_gid(banks, "lane") if box.get_gid() == f"lane {lane}"]
            row, column = copy.access.elements[lane][0]
            assert (source.get_x(), source.get_y()) == (column, row)
            first = copy.words[lane][0] - copy.words.min() // 32 * 32
            assert (target.get_x(), target.get_y()) == (first % 32, first // 32)
            assert source.get_facecolor() == target.get_facecolor()
    assert words(figure).count("K") == 4


# ---- types, and 8 bits ---------------------------------------------------------------------------


def errors_of_types():
    return pandas.DataFrame(
        {"dtype": element.name, "k": k, "error": 10.0 ** (at - 4) * k / 64}
        for at, element in enumerate(TYPES)
        for k in (64, 256)
    )


def test_every_type_has_its_curve_and_its_name():
    table = errors_of_types()
    figure = mma_sync_figures.error_over_k(table)
    for name in (element.name for element in TYPES):
        curve = the_one(figure, name)
        assert curve.get_ydata().tolist() == table[table["dtype"] == name]["error"].tolist()
        assert name in words(figure)
    assert "At K = 256 float16 is the nearest and float8_e5m2 the farthest" in figure.caption


def test_another_layout_of_fragments_is_noticed(monkeypatch):
    by_wmma = fragments.by_wmma()
    moved = {**by_wmma, "B": by_wmma["B"][::-1]}
    monkeypatch.setattr(fragments, "by_wmma", lambda: moved)
    assert fragments.as_documented() == {"A": True, "B": False, "C": True}


def test_errors_of_8_bits_are_drawn_as_they_are():
    rows = [
        {"data": data, "types": "E4M3", "scales": kind, "promote": promote, "k": k,
         "sum_error": (2.0 - bool(promote)) / k, "whole_error": (2 + (kind == "tensors")) / k}
        for data in ("even", "uneven") for kind in ("tensors", "rows")
        for promote in (0, 128) for k in (128, 512)
    ]  # fmt: skip
    rows += [{**row, "scales": "blocks", "whole_error": 1 / row["k"]} for row in rows]
    table = pandas.DataFrame(rows).drop_duplicates(["data", "scales", "promote", "k"])
    left, right = fp8_figures.fp8_errors(table).axes[:2]
    (never,) = (line for line in left.lines if line.get_gid() == "0")
    assert never.get_ydata().tolist() == [2 / 128, 2 / 512]
    assert [line.get_gid() for line in right.lines] == ["tensors", "rows", "blocks"]
    assert [line.get_ydata()[0] * 128 for line in right.lines] == [3, 2, 1]


def test_numbers_and_roundings_are_drawn_as_they_are():
    numbers = {name: fp8_tables.numbers(element) for name, element in ELEMENTS.items()}
    figure = fp8_figures.fp8_values(numbers, fp8_tables.rounding())
    (drawn,) = (item for item in figure.axes[0].collections if item.get_gid() == "E5M2")
    assert len(drawn.get_segments()) == (numbers[E5M2.name] <= 8).sum()
    assert "E4M3 ends at 448" in figure.caption and "at most 5.9 %" in figure.caption


def test_the_reach_of_scales_is_drawn_as_it_is():
    reach = scales.every_kind(partial(gl.load, "19_fp8"), 32, 256, 384, 9, 40)
    figure = fp8_figures.scale_reach(*reach)
    of_b = next(ax for ax in figure.axes if ax.get_gid() == "blocks B")
    boxes = [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in of_b.patches]
    assert boxes == [(0, at, 128, 128) for at in (0, 128, 256)]
    assert "3 and 3 of blocks" in figure.caption


@pytest.mark.parametrize("interval, count", ((128, 7), (256, 4)))
def test_sets_of_sums_are_filled_in_turn_and_each_is_added_once(interval, count):
    steps = turns.of(gl.load("19_fp8", PROMOTE=interval).trace(128, 128, 7 * 128))
    figure = fp8_figures.sums_in_turn(steps)
    boxes = {patch.get_gid(): patch for patch in figure.axes[0].patches}
    assert set(boxes) == {f"{what} {n}" for what in ("products", "added") for n in range(count)}
    for n in range(count):
        filled, added = boxes[f"products {n}"], boxes[f"added {n}"]
        assert filled.get_x() + filled.get_width() == added.get_x()
        if n + 2 < count:  # the set is filled anew only after it was added
            assert boxes[f"products {n + 2}"].get_x() > added.get_x()
        if n + 1 < count:  # while the other is under way
            other = boxes[f"products {n + 1}"]
            assert other.get_x() < added.get_x() < other.get_x() + other.get_width()


# ---- schedules -----------------------------------------------------------------------------------


@cache
def orders():
    small = {"BM": 64, "BN": 64, "STAGES": 2, "CLUSTER": 1}
    kernels = {
        group: Kernel(
            PERSISTENT, ladder.settings_for(PERSISTENT, small | {"GROUP": group}), "sm_90a",
            PERSISTENT.path,
        )
        for group in (1, 4)
    }  # fmt: skip
    return {group: schedule(one, 520, 512, 64, sm_count=8) for group, one in kernels.items()}


@cache
def of_clusters():
    kernel = Kernel(PERSISTENT, PERSISTENT.defaults, "sm_90a", PERSISTENT.path)
    return schedule(kernel, 256, 512, 72, sm_count=2)


@cache
def ways_to_share():
    shape = (3 * BM, 4 * BN, 8 * 64)
    kernels = {
        "whole tiles": gl.load("22_fp32_summit", STREAM_K=0),
        "stream-K": gl.load("22_fp32_summit"),
    }
    return {name: sharing(kernel, *shape, 5) for name, kernel in kernels.items()}


def tile_order():
    named = ((f"GROUP={group}", order) for group, order in orders().items())
    return persistent_figures.tile_order(*named)


def test_tiles_have_the_number_of_their_block_and_what_a_round_needs_is_dark():
    figure = tile_order()
    first, second = (
        next(ax for ax in figure.axes if ax.get_gid() == f"{order.settings} C")
        for order in orders().values()
    )
    for ax, tile in ((first, (0, 3)), (second, (3, 0))):
        box = the_one(ax, "block 3 round 0")
        assert (box.get_y(), box.get_x()) == tile
        middle = (tile[1] + 0.5, tile[0] + 0.5)
        assert [t.get_text() for t in ax.texts if t.get_position() == middle] == ["3"]
    strips = [ax for ax in figure.axes if str(ax.get_gid()).endswith((" A", " B"))]
    needed = [sum("needed" in item.get_gid() for item in ax.patches) for ax in strips]
    assert needed == [1, 8, 4, 2]  # of A and B, row by row and in groups
    assert any("64 rows of A and 512 columns of B" in text for text in words(figure))


def test_what_both_blocks_of_a_cluster_get_stands_in_both_shared_memories():
    figure = persistent_figures.multicast(of_clusters())
    for block in (0, 1):
        there = next(ax for ax in figure.axes if ax.get_gid() == f"shared memory {block}")
        assert len(by_gid(there, "B ")) == 4 and len(by_gid(there, "A ")) == 1
        assert the_one(there, f"A ({128 * block}, 0) asked by {block} in {block}")
        for column in range(0, 256, 64):
            assert the_one(there, f"B (0, {column}) asked by {column // 128} in {block}")
    assert "ask for 64 KiB and get 96 KiB" in figure.caption


def shares():
    caption = "Two ways to spread a product over 5 SMs, stage by stage."
    return fp32_summit_figures.sharing(*ways_to_share().items(), caption=caption)


def test_every_part_of_a_tile_is_in_the_row_of_its_sm():
    for ax, way in zip(shares().axes, ways_to_share().values(), strict=True):
        drawn = [p for p in ax.patches if p.get_gid() != "all SMs' time"]
        assert {(p.get_x(), p.get_y(), p.get_width()) for p in drawn} == {
            (p.start, p.sm, p.end - p.first) for p in way.parts
        }
        kinds = {p.get_gid().split(" (")[0] for p in drawn}
        assert kinds == ({WHOLE, BEGINS, GOES_ON} if shared_tiles(way) else {WHOLE})


def test_waves_have_a_box_for_each_part_and_all_panels_one_scale():
    kernel = gl.load("08_warp_tiling", BM=64, BN=64, BK=8, WM=32, WN=32)
    nine, six = (work(kernel, m, 190, 32, sm_count=4) for m in (150, 128))
    figure = waves(("nine", nine), ("six", six))
    panels = [ax for ax in figure.axes if str(ax.get_gid()).startswith("waves")]
    assert [ax.get_xlim() for ax in panels] == [(0, 12)] * 2
    for ax, tiles in zip(panels, (nine, six), strict=True):
        boxes = [box for box in ax.patches if str(box.get_gid()).startswith("part")]
        assert len(boxes) == len(tiles.parts) == tiles.tiles[0] * tiles.tiles[1]
        assert sum(box.get_width() for box in boxes) == len(tiles.parts) * tiles.steps
    assert "nine 75 % and six 75 %" in figure.caption


# ---- clocks and power ----------------------------------------------------------------------------

ALONE, TOGETHER = "no clusters, sums sent at once", "clusters of 2, sums sent later"
TILE, STORE, GAP = 30000, 900, {"17_warp_specialized": 3100, "18_persistent": 1200}
BLOCKS = pandas.DataFrame(
    [
        ("16_tma_wgmma", 0, 0, 0, 10, 90, 100), ("16_tma_wgmma", 132, 0, 104, 110, 194, 200),
        ("16_tma_wgmma", 1, 1, 0, 20, 90, 100), ("16_tma_wgmma", 133, 1, 108, 116, 194, 210),
        ("17_warp_specialized", 0, 0, 0, 10, 90, 94),
        ("17_warp_specialized", 132, 0, 95, 99, 180, 184),
    ],
    columns=["kernel", "block", "sm", "began", "first", "summed", "stored"],
)  # fmt: skip


def tile_changes():
    rows = []
    for (kernel, gap), how in zip(
        [*GAP.items(), list(GAP.items())[1]], ("", ALONE, TOGETHER), strict=True
    ):
        for turn in (1, 2, 3):
            start = 500 + (turn - 1) * (TILE + gap)
            for role, late in zip(ROLES, (0, 100, -2000), strict=True):
                begins, ends = start + max(late, -400), start + TILE + late
                rows.append({
                    "kernel": kernel, "how": how, "role": role, "turn": turn,
                    **dict.fromkeys(EVENTS), "starts": begins, "ends": ends,
                })  # fmt: skip
                if role != ROLES[-1]:
                    rows[-1] |= {"sends": ends, "sent": ends + STORE}
                    rows[-1] |= {"gone": ends + 2 * STORE} if not how else {}
    return persistent_figures.tile_changes(pandas.DataFrame(rows))


def test_bars_lie_where_the_clock_was_read():
    figure = tile_changes()
    ax = axes(figure, f"changes 18_persistent, {ALONE}")
    store = the_one(ax, "warpgroup 1 sends 2")
    assert (store.get_x(), store.get_width()) == (0, STORE)  # the last one to end is at 0
    following = the_one(ax, "warpgroup 0 starts 3")
    assert following.get_x() == GAP["18_persistent"] - 100
    assert not by_gid(ax, "warpgroup 0 sent 2")
    assert by_gid(axes(figure, "changes 17_warp_specialized"), "warpgroup 0 sent 2")
    assert "17_warp_specialized: 3,000 cycles without products" in words(figure)
    assert f"18_persistent, {TOGETHER}: 1,100 cycles without products" in words(figure)


def test_all_blocks_of_an_sm_are_drawn_and_the_full_rate():
    means = tma_wgmma_tables.phases(BLOCKS)
    above, below = figures.block_phases(BLOCKS, means, 60.0).axes
    drawn = {(box.get_gid(), int(box.get_y())): box for box in above.patches}
    steps = drawn["first 132", 0]
    assert (steps.get_x(), steps.get_width()) == (110, 84)
    pause = drawn["stored 0", 0]
    assert (pause.get_x(), pause.get_width()) == (100, 4) and ("stored 132", 0) not in drawn
    marks = [line.get_xdata()[0] for line in below.lines if line.get_gid() == "full rate"]
    assert marks == [mean + 60 for mean in means["until the first tiles are there"]]


def test_waits_are_drawn_from_their_readings():
    marks = clock_readings.marks()
    figure = figures.waits(marks, first=20, steps=4)
    panels = [ax for ax in figure.axes if str(ax.get_gid()).startswith("waits ")]
    assert len(panels) == 2
    lead = marks[(marks.kernel == "16_tma_wgmma") & (marks.role == "warpgroup 0")].set_index("step")
    (bar,) = (p for p in panels[0].patches if p.get_gid() == "goes_on 21" and p.get_y() < 1)
    assert bar.get_x() == lead.loc[21, "goes_on"] - lead.loc[20, "waits"]
    assert bar.get_width() == lead.loc[21, "done"] - lead.loc[21, "goes_on"]


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
    figure = tma_wgmma_figures.wgmma_ceilings(table)
    drawn = {line.get_gid(): float(line.get_xdata()[0]) for line in figure.axes[0].lines}
    assert drawn == {"burst 0": 800, "sustained 0": 640, "burst 1": 810, "sustained 1": 650}
    assert "800 in a burst on random numbers" in figure.caption


def test_kernels_are_drawn_beside_cublas_under_each_load():
    rows = [
        (kernel, load, speed)
        for kernel, speeds in (("cublas", (800, 660)), (LAST, (816, 693)))
        for load, speed in zip(("burst", "sustained"), speeds, strict=True)
    ]
    table = pandas.DataFrame(rows, columns=["kernel", "load", "tflops"]).assign(
        data="random", dtype="float16", sm_clock_mhz=1500.0, joules_per_tflop=1.0,
        m=8192, n=8192, k=8192, gpu="NVIDIA H200", recorded="2026-11-23",
    )  # fmt: skip
    figure = tma_wgmma_figures.power(table)
    drawn = {line.get_gid(): float(line.get_xdata()[0]) for line in figure.axes[0].lines}
    assert drawn == {
        "cublas 0": 800, "18_persistent 0": 816, "cublas 1": 660, "18_persistent 1": 693,
    }  # fmt: skip
    assert "102.0 to 105.0 %" in figure.caption and "660 to 800" in figure.caption


# ---- layouts and registers -----------------------------------------------------------------------


def test_layouts_show_the_chosen_ones_and_say_what_they_are():
    boxes = {name: tma_wgmma_tables.in_shared_memory(name) for name in ("none", "128B")}
    figure = tma_wgmma_figures.swizzles(boxes)
    assert "4 without and 32 with 128 bytes" in figure.caption
    dark = tma_wgmma_figures.warpgroup_sums(tma_wgmma_tables.sums(), thread=37)
    assert "lane 5 of warp 1" in dark.caption and "rows 17 and 25" in dark.caption
    assert sum(patch.get_width() == 1 for patch in dark.axes[0].patches) == 32


def test_registers_are_drawn_as_roles_divide_them():
    budget = register_budget(gl.load("17_warp_specialized"))
    (ax,) = figures.register_budget(budget).axes
    drawn = {patch.get_gid(): patch for patch in ax.patches}
    for share in budget:
        for when in ("at_launch", "then"):
            width = share.threads * getattr(share, when)
            assert drawn[f"{share.role} {when}"].get_width() == width
    assert {text.get_text() for text in ax.texts} >= {"128 × 40", "consumers: 256 threads × 232"}


@pytest.fixture(
    params=(
        lambda: batched_figures.copies(warp_copies()),
        lambda: mma_sync_figures.error_over_k(errors_of_types()),
        tile_order,
        lambda: persistent_figures.multicast(of_clusters()),
        shares,
        tile_changes,
    ),
    ids=("copies", "error_over_k", "tile_order", "multicast", "sharing", "tile_changes"),
)
def figure(request):
    """One of each kind, for what every figure must pass."""
    return request.param()
