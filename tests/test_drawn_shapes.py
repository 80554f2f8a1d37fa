"""How gl.matmul chooses at shapes that nobody measured, and what was measured at drawn ones."""

import pytest

import gemmlab as gl
from gemmlab.lessons.autotuning import choice, drawn_shapes

SHAPES = (46, 768, 3072), (990, 990, 990), (40, 8, 7000)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_kernel_is_what_gl_matmul_takes(shape):
    table, chosen = choice.by_kernel(shape, "float16"), gl.choose(shape, "float16")
    assert table.index[0] == chosen.rung
    assert table["µs by the model"].is_monotonic_increasing
    assert f"{table['µs by the model'].iloc[0]:.3g} µs" in chosen.why


@pytest.mark.parametrize("shape", SHAPES)
def test_the_account_adds_up_to_the_time_by_the_model(shape):
    account = choice.account(shape, "float16")
    *costs, total, corrected = account["µs"]
    assert sum(costs) == pytest.approx(total, abs=choice.LEAST_US * len(choice.WORDS))
    assert corrected == pytest.approx(choice.by_kernel(shape, "float16")["µs by the model"].min())


def test_split_k_is_counted_by_hand():
    """C has 12 tiles of 64×64, in 8 parts of 6 k tiles each."""
    account = choice.account((46, 768, 3072), "float16")["count"]
    assert account[choice.WORDS["k_tile"]] == 3072 / 8 / 64
    assert account[choice.WORDS["worker"]] == 8
    assert account[choice.WORDS["memory_mb"]] == pytest.approx(
        2 * (46 * 3072 + 3072 * 768 + 46 * 768) / 1e6
    )


def test_rows_and_tiles_leave_no_shape_out():
    judged = drawn_shapes.recorded()
    table = drawn_shapes.by_rows_and_tiles(judged)
    families = drawn_shapes.by_family(judged)
    for dtype in ("float16", "float32"):
        part, every = table.loc[dtype], families.loc[(dtype, "all")]
        assert part["shapes"].sum() == every["shapes"]
        losses = (part["below 0.9, %"] * part["shapes"] / 100).sum()
        assert losses == pytest.approx(every["below 0.9"], abs=0.005 * every["shapes"])
        assert part["least"].min() == every["least"]


def test_what_was_measured_at_a_shape_is_found():
    judged = drawn_shapes.recorded()
    row = judged[judged["dtype"] == "float16"].iloc[0]
    measured = drawn_shapes.at(judged, (row.m, row.n, row.k), "float16")
    assert list(measured.index) == [row.rung] and measured["µs"].item() == row.us
    assert drawn_shapes.at(judged, (1, 2, 3), "float16").empty
