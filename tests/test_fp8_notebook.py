"""What the notebook of 19 shows: scales and sums as traced, costs as recorded."""

from functools import partial

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.lessons.fp8 import errors, tables
from gemmlab.lessons.fp8.lab import ErrorSliders

NAME = "19_fp8"


# ---- scales --------------------------------------------------------------------------------------


def test_one_large_element_costs_those_that_share_its_scale():
    matrix = np.ones((4, 256), np.float32)
    matrix[1, 130] = 1e6
    assert tables.zeros(matrix, "tensors") == "1 scale: 1,023 of 1,024 elements become 0"
    assert tables.zeros(matrix, "rows") == "4 scales: 255 of 1,024 elements become 0"
    assert tables.zeros(matrix, "blocks") == "8 scales: 127 of 1,024 elements become 0"


def test_what_scales_reach_is_what_their_definition_says():
    """Of each kind: the factors of a row of A and of a column of B, spread out."""
    m, n, k, row, column = 32, 256, 300, 9, 40
    for reached in tables.every_kind(partial(gl.load, NAME, BM=64, STAGES=6), m, n, k, row, column):
        kind = reached.scales
        shape = kind.shape_of_a(reached.problem)
        number = 1 + np.arange(np.prod(shape)).reshape(shape)
        wide = np.broadcast_to(kind.spread(number, kind.rows, m, k), (m, k))
        for rows, deep in reached.a:
            part = wide[slice(*rows), slice(*deep)]
            assert len(np.unique(part)) == 1 and (wide == part[0, 0]).sum() == part.size
        assert sum(deep[1] - deep[0] for _, deep in reached.a) == k
        assert all(rows[0] <= row < rows[1] for rows, _ in reached.a)
        assert sum(deep[1] - deep[0] for deep, _ in reached.b) == k
        assert all(columns[0] <= column < columns[1] for _, columns in reached.b)
    assert reached.a[2] == ((9, 10), (256, 300))
    assert reached.b[2] == ((256, 300), (0, 128))


def test_sums_of_one_sign_need_promotion():
    """Random signs leave 8 bits in front; of one sign, what a single sum loses adds up."""
    table = tables.errors_by_signs(k=2048)
    bf16, promoted, never = (table[column] for column in table)
    assert (bf16 < promoted / 4).all()
    assert never["random"] == pytest.approx(promoted["random"], rel=0.01)
    assert never["all +"] > 20 * promoted["all +"]


# ---- sums ----------------------------------------------------------------------------------------


def test_the_account_has_the_cycles_of_a_full_rate():
    """By hand, of 128 SMs of 132: FLOP over 4,096 or 8,192 a cycle; an FMA for each 128 of K."""
    table = tables.account("18_persistent", NAME)
    products, promoting = table.loc[tables.AT_FULL_RATE], table.loc[tables.PROMOTING]
    assert products["18_persistent"] == pytest.approx(2 * 4096**3 / 128 / 4096)
    assert products[NAME] == pytest.approx(2 * 4096**3 / 128 / 8192)
    assert promoting["18_persistent"] == 0
    assert promoting[NAME] == pytest.approx(4096**3 / 128 / 32 / 4 / 128)
    assert (products < table.loc[tables.SM_CYCLES]).all()


# ---- sliders -------------------------------------------------------------------------------------


def test_each_move_multiplies_once_and_what_was_tried_stays():
    sliders = ErrorSliders()
    assert "Sliders for the errors" in repr(sliders) and sliders.picture.value
    sliders.sliders["k"].value = 256
    assert [row["k"] for row in sliders._tried] == [1024, 256]
    row = errors.ERRORS.read().set_index(["data", "types", "scales", "k"])
    expected = row.loc[("even", "E4M3", "tensors", 256)]
    assert sliders._tried[-1]["sum_error"] == pytest.approx(expected.sum_error, rel=1e-5)
    assert "K = 256" in sliders.caption.value and "role" in sliders.message.value


def test_what_does_not_go_together_is_said_and_not_multiplied():
    sliders = ErrorSliders()
    before = sliders.picture.value
    sliders.sliders["promote"].value = 0
    sliders.sliders["scales"].value = 2
    assert "another scale after every 128 of K" in sliders.message.value
    assert len(sliders._tried) == 2 and sliders.picture.value != before
    sliders.sliders["promote"].value = 512
    assert "another scale" in sliders.message.value
    sliders.sliders["promote"].value = 128
    assert "Not multiplied" not in sliders.message.value and len(sliders._tried) == 3
