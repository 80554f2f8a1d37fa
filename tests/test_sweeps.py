"""Recorded sweeps: whole, of the code as it stands, and the source of every default setting."""

import itertools

import pandas
import pytest

import gemmlab as gl
from gemmlab import ladder, plots, records, roofline, sweeps

SWEPT = [rung for rung in ladder.RUNGS if rung.name >= "03"]
every_swept_rung = pytest.mark.parametrize("rung", SWEPT, ids=lambda rung: rung.name)
NOISE = 0.01  # settings that are no further apart are equally fast


@every_swept_rung
def test_every_tuned_setting_was_measured_at_every_shape(rung):
    table = sweeps.recorded(rung.name)
    names = sweeps.rung_parameters(rung)
    wanted = {tuple(settings.values()) for settings in ladder.tuned_settings(rung)}
    for shape in sweeps.shapes_of(rung):
        rows = sweeps.at(table, shape)
        assert {tuple(row) for row in rows[names].to_numpy().tolist()} == wanted
        assert len(rows) == len(wanted) and rows["time_ms"].is_monotonic_increasing


@every_swept_rung
def test_the_default_setting_is_the_fastest_recorded(rung):
    rows = sweeps.at(sweeps.recorded(rung.name), sweeps.SHAPES[0])
    for name, value in ladder.settings_for(rung, {}).items():
        rows = rows[rows[name] == value]
    (default,) = rows.itertuples()
    fastest = sweeps.best(sweeps.recorded(rung.name))
    assert default.time_ms <= fastest["time_ms"] * (1 + NOISE)


@every_swept_rung
def test_sweep_and_record_tell_the_same_of_the_default_setting(rung):
    """Within a few percent: more of them where the GPU, at its limit of power, lowers its clock."""
    run = records.replay_at(gl.load(rung.name), 4096, 4096, 4096)
    best = sweeps.best(sweeps.recorded(rung.name))
    full = roofline.recorded_ceilings().fma.state.sm_clock_mhz
    apart = 0.03 if run.sm_clock_mhz == full else 0.05
    assert best["pct_cublas"] == pytest.approx(100 * run.ratio.median, rel=apart)


def test_one_setting_of_the_last_rung_reaches_85_percent_where_nothing_is_round():
    best = sweeps.best(sweeps.recorded("09_double_buffering"), (1001, 777, 513))
    assert best["pct_cublas"] >= 85


@pytest.fixture
def sweep_file(tmp_path, monkeypatch):
    """A copy of the results in which a sweep may be changed."""
    monkeypatch.setattr(sweeps, "folder", lambda slug: tmp_path)
    table = pandas.read_csv(ladder.RESULTS / "nvidia-h200-sweeps" / "03_shared_memory.csv")
    return table, tmp_path / "03_shared_memory.csv"


def test_a_sweep_of_other_code_is_not_shown(sweep_file):
    table, path = sweep_file
    table.to_csv(path, index=False)
    assert len(sweeps.recorded("03_shared_memory")) == len(table)
    table.loc[3, "code"] = "0123456789abcdef"
    table.to_csv(path, index=False)
    with pytest.raises(records.StaleRecord, match=r"another version.*tune 03_shared_memory"):
        sweeps.recorded("03_shared_memory")


def test_what_is_not_there_is_named(sweep_file):
    table, path = sweep_file
    with pytest.raises(records.NoRecord, match="tune 03_shared_memory"):
        sweeps.recorded("03_shared_memory")
    table.drop(columns="registers").to_csv(path, index=False)
    with pytest.raises(records.NoRecord, match="lacks registers"):
        sweeps.recorded("03_shared_memory")
    with pytest.raises(ladder.LadderError, match="did you mean 03_shared_memory"):
        sweeps.recorded("03_shared")
    with pytest.raises(records.NoRecord, match=r"\(3, 3, 3\).*4096"):
        sweeps.best(table, (3, 3, 3))


def texts(figure):
    (ax,) = (ax for ax in figure.axes if ax.get_gid() == "sweep")
    return [text.get_text() for text in ax.texts]


def test_the_figure_names_the_fastest_choice_of_every_pair():
    table = sweeps.recorded("08_warp_tiling")
    figure = plots.sweep(table, "WM", "WN")
    assert len(texts(figure)) == 2 * 4
    at = sweeps.at(table, sweeps.SHAPES[0])
    for (wm, wn), rows in at.groupby(["WM", "WN"]):
        assert any(text == plots.style.rate(rows["gflops"].max()) for text in texts(figure)), (
            wm,
            wn,
        )
    best = at.iloc[0]
    assert f"WM={best['WM']}, WN={best['WN']}" in figure.caption
    assert plots.style.rate(best["gflops"]) in figure.caption


def test_the_settings_of_every_cell_stay_inside_it():
    figure = plots.sweep(sweeps.recorded("10_register_banks"), "TM", "TN")  # six others to name
    ax = figure.axes[0]
    cells = [patch.get_window_extent() for patch in ax.patches]
    written = [text.get_window_extent() for text in ax.texts]
    assert len(written) == 2 * len(cells)
    for box in written:
        assert sum(cell.x0 < box.x0 and box.x1 < cell.x1 and cell.y0 < box.y0 and box.y1 < cell.y1
                   for cell in cells) == 1  # fmt: skip
    for one, other in itertools.combinations(written, 2):
        assert not one.overlaps(other)


def test_pairs_without_a_legal_setting_are_marked():
    table = sweeps.recorded("03_shared_memory")
    assert texts(plots.sweep(table, "TILE", "BK")).count("not legal") == 3


def test_a_figure_of_other_parameters_is_refused():
    table = sweeps.recorded("03_shared_memory")
    with pytest.raises(ValueError, match="TM is no parameter of this kernel: TILE, BK, PAD"):
        plots.sweep(table, "TM", "BK")
    with pytest.raises(ValueError, match="both TILE"):
        plots.sweep(table, "TILE", "TILE")
    with pytest.raises(TypeError, match="pandas"):
        plots.sweep([1], "TILE", "BK")
