"""The figures over shapes of all kinds: shares of cuBLAS in groups, and the map of rungs."""

import numpy
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

from gemmlab import ladder, plots
from gemmlab.analysis import recorded as chosen
from gemmlab.ladder import Problem
from gemmlab.ladder.problem import GROUPS
from gemmlab.plots import style
from gemmlab.products import choosing

MADE_UP = {"thin": 12, "deep K": 12, "irregular": 10, "squares": 12, "large": 10, "batches": 13}
NAMES = {10: "10_register_banks", 12: "12_split_k", 13: "13_batched"}
SHARE_OF = {"thin": 210.0, "deep K": 180.0, "irregular": 96.0, "squares": 140.0}


def table(groups=MADE_UP):
    """Made up: no rung has been measured so."""
    shapes = {**GROUPS, "large": tuple(Problem(n, n, n) for n in (2048, 4096, 8192, 16384))}
    return pandas.DataFrame(
        {
            "group": group, "kernel": NAMES[groups[group]], "dtype": "float32",
            "m": one.m, "n": one.n, "k": one.k, "batch": one.batch,
            "pct_cublas": SHARE_OF.get(group, 107.0) + 3.3 * at,
            "gpu": "NVIDIA Test", "recorded": "2026-11-21T10:00:00+00:00",
        }
        for group in groups
        for at, one in enumerate(shapes[group])
    )  # fmt: skip


def choices(sides=chosen.SIDES):
    """Made up: by the size alone."""
    grids = [("square C", Problem(n, n, k)) for n in chosen.SQUARES for k in chosen.DEPTHS]
    grids += [("K = 4096", Problem(m, n, 4096)) for m in sides for n in sides]
    return pandas.DataFrame(
        {
            "panel": panel, "m": one.m, "n": one.n, "k": one.k,
            "kernel": NAMES[10 if one.m * one.n >= 2**20 else 12],
            "recorded": (one.m, one.n) in ((64, 4096), (1024, 1024)),
        }
        for panel, one in grids
    )  # fmt: skip


FIGURES = {
    "shares": lambda: plots.shape_shares(table()),
    "shares, one group": lambda: plots.shape_shares(table({"thin": 12})),
    "map": lambda: plots.rung_map(choices()),
    "map, few": lambda: plots.rung_map(choices((64, 4096))),
}


@pytest.fixture(scope="module", params=FIGURES, ids=str)
def figure(request):
    return FIGURES[request.param]()


def test_every_shape_has_a_bar_of_its_share_in_its_rung_s_colour():
    rows = table()
    drawn = plots.shape_shares(rows)
    bars = {bar.get_gid(): bar for bar in by_gid(drawn, "bar ")}
    assert len(bars) == len(rows)
    for row in rows.itertuples():
        cube = row.m == row.n == row.k
        shape = f"{row.m}³" if cube else f"{row.m}×{row.n}×{row.k}"
        bar = bars[f"bar {shape}" if row.batch == 1 else f"bar {row.batch:,} × {shape}"]
        assert bar.get_width() == row.pct_cublas
        assert same_color(bar.get_edgecolor(), style.kernel_style(row.kernel)["color"])
    for group in MADE_UP:
        ax = axes(drawn, f"shares {group}")
        assert ax.get_xscale() == "linear" and ax.get_xlim()[0] == 0
        assert ax.get_xlim() == axes(drawn, "shares thin").get_xlim()
    assert set(NAMES.values()) <= set(words(drawn))


def test_the_caption_has_the_type_geometric_means_and_the_least():
    caption = plots.shape_shares(table()).caption
    assert caption.startswith("The speed of what gl.matmul picks in float32 at each shape")
    thin = table().query("group == 'thin'")["pct_cublas"]
    assert f"thin {style.percent(numpy.exp(numpy.log(thin).mean()))}" in caption
    assert "The least is 96.0 %, at 1001×777×513 with 10_register_banks." in caption


def test_the_map_has_a_cell_for_every_shape_and_dots_where_rungs_were_measured():
    rows = choices()
    drawn = plots.rung_map(rows)
    for panel, own in rows.groupby("panel"):
        ax = axes(drawn, f"map {panel}")
        cells = {cell.get_gid() for cell in by_gid(ax, "cell ")}
        assert cells == {f"cell {r.m}×{r.n}×{r.k} {r.kernel}" for r in own.itertuples()}
        dots = {dot.get_gid() for dot in by_gid(ax, "dot ")}
        assert dots == {f"dot {r.m}×{r.n}×{r.k}" for r in own[own.recorded].itertuples()}
        places = {(cell.get_x(), cell.get_y()) for cell in by_gid(ax, "cell ")}
        assert len(places) == len(own)
    assert axes(drawn, "map square C").get_ylabel() == "K"
    assert axes(drawn, "map K = 4096").get_xlabel() == "N"


@pytest.mark.parametrize("draw", [plots.shape_shares, plots.rung_map])
def test_other_tables_are_refused(draw):
    with pytest.raises(TypeError, match="takes a pandas table"):
        draw([])
    with pytest.raises(ValueError, match="missing"):
        draw(pandas.DataFrame({"m": [1]}))
    with pytest.raises(ValueError, match=r"pct_cublas is -1\.0 in row 3"):
        plots.shape_shares(
            table().assign(pct_cublas=lambda t: t.pct_cublas.where(t.index != 3, -1))
        )


# ---- what they are drawn from --------------------------------------------------------------------


def test_shares_are_those_of_the_record_in_groups():
    found = chosen.chosen_shares()
    problems = {row.problem for row in choosing.recorded() if row.problem.ops == "NN"}
    assert set(found["dtype"]) == {"float32"}
    assert len(found) == len(problems) and list(found["group"])[-1] in ("large", "batches")
    for row in found.itertuples():
        best = choosing.at(Problem(row.m, row.n, row.k, row.batch))
        assert (row.kernel, row.pct_cublas) == (best.rung.name, 100 * best.share)
        in_set = [group for group, several in GROUPS.items() if best.problem in several]
        assert row.group == (in_set[0] if in_set else "large")


def test_the_map_is_of_choices():
    found = chosen.chosen_rungs()
    assert len(found) == len(chosen.SQUARES) * len(chosen.DEPTHS) + len(chosen.SIDES) ** 2
    assert set(found["kernel"]) <= {rung.name for rung in ladder.RUNGS}
    row = found[(found["m"] == 4096) & (found["n"] == 4096) & (found["k"] == 4096)].iloc[0]
    assert row["kernel"] == choosing.choose((4096, 4096, 4096)).rung and row["recorded"]
