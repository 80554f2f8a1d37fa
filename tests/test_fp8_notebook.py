"""What the notebook of 19 shows: conversions, scales and sums as traced, costs as recorded."""

import hashlib
from functools import partial

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.kernel.operands import random_values
from gemmlab.ladder.element_types import E4M3, E5M2
from gemmlab.lessons.fp8 import errors, figures, measure, scales, tables
from gemmlab.lessons.fp8.lab import error_sliders
from gemmlab.lessons.fp8.quantize import ELEMENTS
from gemmlab.lessons.fp8.scales import Region
from gemmlab.lessons.warp_specialized import turns
from gemmlab.records import runs

NAME = "19_fp8"


# ---- conversions ---------------------------------------------------------------------------------


def test_the_numbers_of_both_types():
    """OCP, 8-bit Floating Point Specification: the largest, the smallest, how many in an octave."""
    for element, largest, smallest, octave, count in (
        (E4M3, 448, 2.0**-9, 8, 126), (E5M2, 57344, 2.0**-16, 4, 123),
    ):  # fmt: skip
        found = tables.numbers(element)
        assert (found[-1], found[0], len(found)) == (largest, smallest, count)
        assert ((found >= 1) & (found < 2)).sum() == octave


@pytest.mark.parametrize("element", (E4M3, E5M2), ids=lambda one: one.name)
def test_a_value_becomes_the_nearest_number(element):
    every = np.append(0.0, tables.numbers(element))
    values = abs(random_values(300, 5)) * np.float32(every[-1])
    found = tables.converted(values, element)
    assert (abs(found - values) == abs(every - values[:, None]).min(axis=1)).all()


def test_the_largest_errors_are_those_of_their_fractions():
    """Half a step over the number below it: 1/17 with 3 bits of fraction, 1/9 with 2."""
    table = tables.rounding()
    for element, bits in ((E4M3, 3), (E5M2, 2)):
        rows = table[table["element"] == element.name].set_index("from")["error"]
        whole = rows[rows.index >= element.smallest_normal]
        assert whole.to_numpy() == pytest.approx(1 / (1 + 2 ** (bits + 1)))
        assert rows.iloc[0] == 1 and rows.is_monotonic_decreasing


def test_numbers_and_roundings_are_drawn_as_they_are():
    numbers = {name: tables.numbers(element) for name, element in ELEMENTS.items()}
    figure = figures.fp8_values(numbers, tables.rounding())
    (drawn,) = (one for one in figure.axes[0].collections if one.get_gid() == "E5M2")
    assert len(drawn.get_segments()) == (numbers[E5M2.name] <= 8).sum()
    assert "E4M3 ends at 448" in figure.caption and "at most 5.9 %" in figure.caption


# ---- scales --------------------------------------------------------------------------------------


def test_what_scales_reach_is_what_their_definition_says():
    """Of each kind: the factors of a row of A and of a column of B, spread out."""
    m, n, k, row, column = 32, 256, 300, 9, 40
    for one in scales.every_kind(partial(gl.load, NAME, BM=64, STAGES=6), m, n, k, row, column):
        shape = one.scales.shape_of_a(one.problem)
        number = 1 + np.arange(np.prod(shape)).reshape(shape)
        wide = np.broadcast_to(one.scales.spread_over_a(number, one.problem), (m, k))
        for region in one.a:
            part = wide[slice(*region.rows), slice(*region.columns)]
            assert len(np.unique(part)) == 1 and (wide == part[0, 0]).sum() == part.size
        assert sum(region.columns[1] - region.columns[0] for region in one.a) == k
        assert all(region.rows[0] <= row < region.rows[1] for region in one.a)
        assert sum(region.rows[1] - region.rows[0] for region in one.b) == k
        assert all(region.columns[0] <= column < region.columns[1] for region in one.b)
    assert one.a[2] == Region((9, 10), (256, 300)) and one.b[2] == Region((256, 300), (0, 128))


def test_elements_that_are_not_in_the_first_tile_and_kernels_without_scales_are_refused():
    with pytest.raises(ValueError, match=r"C\[9, 128\] is not in the first tile of C, 128×128"):
        scales.reach(gl.load(NAME), 32, 256, 384, 9, 128)
    with pytest.raises(ValueError, match="18_persistent takes no scales"):
        scales.reach(gl.load("18_persistent"), 32, 256, 384, 9, 40)


def test_the_reach_of_scales_is_drawn_as_it_is():
    found = scales.every_kind(partial(gl.load, NAME), 32, 256, 384, 9, 40)
    figure = figures.scale_reach(*found)
    of_b = next(ax for ax in figure.axes if ax.get_gid() == "blocks B")
    boxes = [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in of_b.patches]
    assert boxes == [(0, at, 128, 128) for at in (0, 128, 256)]
    assert "3 and 3 of blocks" in figure.caption


# ---- sums ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("interval, count", ((128, 7), (256, 4)))
def test_sets_are_filled_in_turn_and_each_is_added_once(interval, count):
    found = turns.of(gl.load(NAME, PROMOTE=interval).trace(128, 128, 7 * 128))
    figure = figures.sums_in_turn(found)
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


def test_a_step_is_counted_by_its_tile():
    """By hand: a multiply-add for each element of C, 32 a warp, on four schedulers."""
    table = tables.of_a_step(gl.load("18_persistent", DTYPE=1, OP_B=1), gl.load(NAME))
    mine = table[NAME]
    assert mine["FLOP"] == 2 * 128**3 and mine["bytes copied"] == 2 * 128**2
    assert mine["cycles of float32 additions"] == 128 * 128 / 32 / 4
    assert table.loc["cycles of float32 additions", "18_persistent"] == 0
    # NVIDIA, "H100 Tensor Core GPU Architecture": FLOP of an SM in a cycle, of 8 and of 16 bits
    assert mine["cycles of the tensor cores"] == 2 * 128**3 / 8192
    assert table.loc["cycles of the tensor cores", "18_persistent"] == 2 * 128 * 256 * 128 / 4096


# ---- costs ---------------------------------------------------------------------------------------


def test_costs_are_those_of_the_records():
    table = tables.beside_the_product()
    assert len(table) == 6
    row = table.loc[("blocks", "8192×8192×8192")]
    times = measure.QUANTIZING.read().set_index(["scales", "which", "transposed", "rows"])["us"]
    assert row["quantizing B, transposed"] == times["blocks", "B", "yes", 8192]
    assert row["all"] == pytest.approx(row.iloc[:3].sum())
    assert (table["all"] < table["18 in BF16"]).all()


def test_kinds_of_scales_stand_beside_each_other():
    table = tables.by_kind().set_index(["step", "M×N×K"])
    assert (
        len(table) == 9 and (table.loc["scales of tensors", "% of scales of tensors"] == 100).all()
    )
    tensors, blocks = (
        table.loc[(what, "8192×8192×8192")] for what in ("scales of tensors", "scales of blocks")
    )
    assert blocks["% of scales of tensors"] == pytest.approx(100 * tensors["µs"] / blocks["µs"])
    gain = tensors["times 18 in BF16"] / blocks["times 18 in BF16"]
    assert gain == pytest.approx(blocks["µs"] / tensors["µs"])


def test_speeds_are_drawn_as_they_are():
    table = tables.speeds()
    figure = figures.fp8_speeds(table)
    (drawn,) = (line for line in figure.axes[0].lines if line.get_gid() == "blocks")
    assert drawn.get_ydata().tolist() == table[table["scales"] == "blocks"]["pct_cublas"].tolist()
    bars = [one for one in figure.axes[1].patches if one.get_gid() == f"speed {tables.BF16}"]
    assert [one.get_height() for one in bars] == table[table["scales"] == "BF16"]["tflops"].tolist()


# ---- sliders -------------------------------------------------------------------------------------


def test_each_move_multiplies_once_and_what_was_tried_stays():
    sliders = error_sliders()
    assert "Sliders for the errors" in repr(sliders) and sliders.picture.value
    sliders.sliders["k"].value = 256
    assert [row["k"] for row in sliders._tried] == [1024, 256]
    row = errors.recorded_errors().set_index(["data", "types", "scales", "promote", "k"])
    wanted = row.loc[("even", "E4M3", "tensors", 128, 256)]
    assert sliders._tried[-1]["sum_error"] == pytest.approx(wanted.sum_error, rel=1e-5)
    assert "K = 256" in sliders.caption.value and "role" in sliders.message.value


def test_what_does_not_go_together_is_said_and_not_multiplied():
    sliders = error_sliders()
    before = sliders.picture.value
    sliders.sliders["promote"].value = 0
    sliders.sliders["scales"].value = 2
    assert "another scale after every 128 of K" in sliders.message.value
    assert len(sliders._tried) == 2 and sliders.picture.value != before
    sliders.sliders["promote"].value = 512
    assert "another scale" in sliders.message.value
    sliders.sliders["promote"].value = 128
    assert "Not multiplied" not in sliders.message.value and len(sliders._tried) == 3


# ---- the record of its runs ----------------------------------------------------------------------


def test_results_are_digested_with_scales():
    kernel = gl.load(NAME)
    given = kernel.operands(kernel.problem(17, 24, 48), 3)
    other = kernel(given.A, given.B, given.C, 0.5, 2.0, scales=(2 * given.scale_a, given.scale_b))
    digest = runs.result_digest(kernel, 17, 24, 48, 0.5, 2.0, 3)
    right = kernel(given.A, given.B, given.C, 0.5, 2.0, scales=given.scales)
    assert (right != other).any()
    assert digest == hashlib.sha256(right.tobytes()).hexdigest()
