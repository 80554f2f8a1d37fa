"""The record of the way from 10 to 22: its rows, written, read and shown in their order."""

import pandas
import pytest

from gemmlab.ladder import written
from gemmlab.lessons.fp32_summit import tables as summit_way
from gemmlab.lessons.fp32_summit.measure import EVERY, TABLE, WAY
from gemmlab.records import registry
from gemmlab.records.best_by_shape import IN_TURN, SUSTAINED


def made_up(step, size, way):
    """A row with numbers that nobody measured."""
    row = dict.fromkeys(TABLE.columns, 1) | dict.fromkeys(("gpu", "driver", "cuda", "nvrtc"), "x")
    row |= {"step": step.title, "kernel": step.rung.name, "settings": written(step.all_settings)}
    row |= {"m": size, "n": size, "k": size, "way": way, "cublas": "x"}
    row |= {"error": None, "cublas_error": None, "recorded": "2026-01-01T00:00:00+00:00"}
    return row


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    (tmp_path / "nvidia-x").mkdir()
    (tmp_path / "nvidia-x" / registry.RUNS).write_text("{}")
    found = [made_up(step, size, IN_TURN) for step in EVERY for size, *_ in step.shapes]
    return [*found, made_up(WAY[-1], 4096, SUSTAINED)]


def test_no_two_steps_are_the_same():
    assert len({step.title for step in EVERY}) == len(EVERY)
    kinds = {(step.rung.name, written(step.all_settings), step.change) for step in EVERY}
    assert len(kinds) == len(EVERY)


# ---- what is recorded ----------------------------------------------------------------------------

SHAPE = "4096×4096×4096"


def test_all_cycles_are_told_and_agree_with_the_recorded_speed():
    idle = {"10_register_banks": 3.0, "22_fp32_summit": 0.3}
    table = summit_way.cycles(idle)
    assert list(table) == list(idle) and list(table.loc["no work"]) == [3.0, 0.3]
    parts, last = table.iloc[:4], table.iloc[4]
    assert (parts >= 0).all(axis=None) and parts.sum().to_list() == pytest.approx([100.0, 100.0])
    assert last.to_list() == pytest.approx(table.loc["multiply-adds"].to_list(), rel=0.01)
    with pytest.raises(ValueError, match="18_persistent is float16"):
        summit_way.cycles({"18_persistent": 0.0})


def test_what_both_counts_promise_is_a_product_of_their_ratios(rows):
    TABLE.write(pandas.DataFrame(rows), "nvidia-x")  # every step 1 TFLOP/s
    names = [WAY[0].rung.name, WAY[-1].rung.name]
    slots = pandas.DataFrame([[110, 100]], index=["issue slots"], columns=names)
    counts = pandas.DataFrame(
        {"M×N×K": [SHAPE] * 2, "blocks": ["whole tiles", "stream-K"], "idle, %": [20.0, 0.0]}
    )
    found = summit_way.by_counts(counts, slots)
    assert list(found.index) == [SHAPE], "other squares have no counts"
    assert found.loc[SHAPE].to_list() == pytest.approx([1.0, 1.1 / 0.8, 1.0])
