"""The two overview figures: all rungs over size, and their shares of cuBLAS beside the sources'."""

import pandas
import pytest
from figures import (  # noqa: F401
    axes,
    by_gid,
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_has_a_number,
    test_the_caption_is_a_sentence_below_everything,
    words,
)
from matplotlib.colors import same_color
from test_plots import OTHERS, SQUARES, measured

from gemmlab import plots
from gemmlab.ladder import RUNGS
from gemmlab.plots import style
from gemmlab.records import published

SHARES = (1, 12.5, 18.5, 42, 60, 76, 88, 93.5, 94.5)
PEAKS = {rung.name: 511.0 * share for rung, share in zip(RUNGS, SHARES, strict=False)}


def table():
    """Nine rungs, of which the first was not measured where it would take long."""
    every = measured(PEAKS, (*SQUARES, *OTHERS))
    return every[(every["kernel"] != "01_naive") | (every["m"] <= 4096)]


FIGURES = {
    "climb": lambda: plots.climb(table()),
    "climb, one rung": lambda: plots.climb(measured({"01_naive": 500.0})),
    "shares": lambda: plots.shares(table(), published.shares()),
    "shares, one rung": lambda: plots.shares(measured({"01_naive": 500.0}), published.shares()),
    "shares, not measured": lambda: plots.shares(table(), published.shares(), (8192,) * 3),
}


@pytest.fixture(scope="module", params=FIGURES, ids=str)
def figure(request):
    return FIGURES[request.param]()


def test_climb_draws_the_squares_of_every_rung_on_a_linear_scale():
    ax = axes(plots.climb(table()), "square products")
    assert ax.get_yscale() == "linear" and ax.get_ylim()[0] == 0
    assert {line.get_label() for line in ax.lines} == {*PEAKS, "cublas"}
    squares = table()[lambda rows: (rows["m"] == rows["n"]) & (rows["n"] == rows["k"])]
    for line in ax.lines:
        own = squares[squares["kernel"] == line.get_label()]
        assert line.get_xdata().tolist() == own["m"].tolist()
        assert line.get_ydata().tolist() == own["gflops"].tolist()


def test_climb_says_what_is_left_out():
    caption = plots.climb(table()).caption
    assert "01_naive has no record at 8192 and 16384." in caption
    assert caption.count("no record") == 1
    assert "At M=N=K=4096: 01_naive 511 GFLOP/s" in caption


def test_climb_refuses_a_table_without_squares():
    with pytest.raises(ValueError, match="no square product"):
        plots.climb(measured(shapes=OTHERS))
    with pytest.raises(TypeError, match="climb takes a pandas table"):
        plots.climb([])


def test_gflops_refuses_a_scale_that_it_does_not_know():
    with pytest.raises(ValueError, match="scale is 'square'; it must be one of log, linear"):
        plots.gflops(table(), scale="square")


def test_shares_draws_every_rung_and_every_source_of_it():
    ax = axes(plots.shares(table(), published.shares()), "shares")
    at = table()[lambda rows: (rows["m"] == 4096) & (rows["n"] == 4096) & (rows["k"] == 4096)]
    own = at.set_index("kernel")["pct_cublas"].drop("cublas")
    assert {bar.get_gid()[4:]: bar.get_width() for bar in by_gid(ax, "bar")} == own.to_dict()
    given = published.shares()[lambda rows: rows["rung"].isin(PEAKS)]
    drawn = {mark.get_gid(): mark.get_xdata()[0] for mark in by_gid(ax, "source")}
    assert drawn == {
        f"source {row.rung} {row.source}": row.pct_cublas for row in given.itertuples()
    }


def test_shares_keeps_the_markers_of_a_rung_apart_and_tells_sources_by_their_form():
    figure = plots.shares(table(), published.shares())
    marks = by_gid(axes(figure, "shares"), "source")
    assert len({mark.get_marker() for mark in marks}) == published.shares()["source"].nunique()
    boxes = [mark.get_window_extent() for mark in marks]
    for at, one in enumerate(boxes):
        for other in boxes[:at]:
            across = min(one.x1, other.x1) - max(one.x0, other.x0)
            down = min(one.y1, other.y1) - max(one.y0, other.y0)
            assert across <= 0 or down <= 0


def test_shares_writes_the_shapes_of_all_sources_as_those_of_ours_are():
    """Each with its name, its GPU, and M×N×K."""
    figure = plots.shares(table(), published.shares())
    assert "siboehm/SGEMM_CUDA, RTX A6000, 4092×4092×4092" in words(figure)
    assert "its own shape, M×N×K" in figure.caption


def test_shares_gives_a_rung_its_colour_and_no_source_that_of_a_matrix():
    ax = axes(plots.shares(table(), published.shares()), "shares")
    for bar in by_gid(ax, "bar"):
        assert same_color(bar.get_edgecolor(), style.kernel_style(bar.get_gid()[4:])["color"])
    for mark in by_gid(ax, "source"):
        assert mark.get_markeredgecolor() not in style.ARRAYS.values()


def test_shares_says_what_is_left_out():
    fewer = published.shares()[lambda rows: rows["rung"] != "04_thread_tile_1d"]
    figure = plots.shares(table(), fewer, (8192,) * 3)
    assert "Not measured at this shape: 01_naive." in figure.caption
    assert "No source for 04_thread_tile_1d." in figure.caption
    assert words(figure).count("not measured") == 1


def test_shares_refuses():
    with pytest.raises(ValueError, match="no kernel was measured at M=N=K=100"):
        plots.shares(table(), published.shares(), (100,) * 3)
    with pytest.raises(ValueError, match="missing: source"):
        plots.shares(table(), published.shares().drop(columns="source"))
    many = pandas.DataFrame(
        {"rung": "01_naive", "source": [f"GPU {at}" for at in range(9)], "pct_cublas": 10.0}
    )
    with pytest.raises(ValueError, match="markers for 7 sources, not for 9"):
        plots.shares(table(), many)


def test_the_sources_are_shares_of_rungs():
    given = published.shares()
    assert set(given.columns) == {*published.COLUMNS, "source"}
    assert given["source"].str.fullmatch(r"[\w/-]+, [\w ]+, \d+×\d+×\d+").all()
    assert given["url"].str.fullmatch(r"https://[\w./-]+").all()
    assert all(link in published.links() for link in given["url"])
    assert given["pct_cublas"].between(0, 100, inclusive="right").all()
    assert not given.duplicated(["rung", "source"]).any()
    assert given["rung"].str.fullmatch(r"\d\d_[a-z0-9_]+").all()
    assert set(given["rung"]) <= {rung.name for rung in RUNGS}
