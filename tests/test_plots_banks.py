"""Figures of the banks, and of block, warp and lane: they show what was traced and counted."""

import pytest
from figures import (  # noqa: F401
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_is_a_sentence_below_everything,
)

import gemmlab
from gemmlab import plots
from gemmlab.lessons.warp_tiling import figures
from ptxsim.metrics import BANK_BYTES, BANKS

SHAPE = (128, 128, 16)
SIX, SEVEN, EIGHT = "06_vectorized_loads", "07_bank_conflicts", "08_warp_tiling"
SQUARES = "lane % 2 + lane / 4 % 4 * 2, down = lane / 2 % 2 + lane / 16 * 2"


@pytest.fixture(scope="module")
def traces():
    by_row = gemmlab.load(EIGHT).text.replace(SQUARES, "lane % 8, down = lane / 8")
    return {
        "06": gemmlab.load(SIX).trace(*SHAPE),
        "padded": gemmlab.load(SEVEN, PAD=4, SWIZZLE=0).trace(*SHAPE),
        "07": gemmlab.load(SEVEN).trace(*SHAPE),
        "08": gemmlab.load(EIGHT).trace(*SHAPE),
        "by row": gemmlab.from_source(by_row, like=EIGHT).trace(*SHAPE),
    }


def shared(trace, op, start, warp=0):
    """The first access of a line that begins so."""
    lines = trace.text.splitlines()
    return next(
        access
        for access in trace.run.accesses((0, 0, 0), warp)
        if access.space == "shared" and access.operation == op
        and lines[access.line - 1].strip().startswith(start)
    )  # fmt: skip


def stores(traces):
    return {name: shared(traces[name], "store", "a[k + 0]") for name in ("06", "padded", "07")}


def loads(traces):
    return {name: shared(traces[name], "load", "*(float4*)&b_row") for name in ("06", "07", "08")}


@pytest.fixture(scope="module", params=["stores", "loads", "levels 07", "levels 08", "by row"])
def figure(request, traces):
    return {
        "stores": lambda: plots.bank_map(stores(traces)),
        "loads": lambda: plots.bank_map(loads(traces)),
        "levels 07": lambda: figures.levels(traces["07"]),
        "levels 08": lambda: figures.levels(traces["08"], warp=3, lane=17),
        "by row": lambda: figures.levels(traces["by row"]),
    }[request.param]()


def axes(figure, gid):
    (found,) = [ax for ax in figure.axes if ax.get_gid() == gid]
    return found


def boxes(ax, start="lanes "):
    """What carries such a gid: {lanes: (x, y, width)}."""
    found = [item for item in ax.findobj() if (item.get_gid() or "").startswith(start)]
    return {
        tuple(map(int, item.get_gid().split()[1:])): (*item.get_xy(), item.get_width())
        for item in found
    }


# ---- the banks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("choose", [stores, loads])
def test_every_lane_stands_in_its_banks(choose, traces):
    chosen = choose(traces)
    figure = plots.bank_map(chosen)
    for name, access in chosen.items():
        found = boxes(axes(figure, f"banks {name}"))
        assert sorted(lane for lanes in found for lane in lanes) == list(range(32))
        for lanes, (x, _, width) in found.items():
            (address,) = {int(access.addresses[lane]) for lane in lanes}
            assert int(x) == address // BANK_BYTES % BANKS
            assert round(width) == access.size // BANK_BYTES


@pytest.mark.parametrize("choose", [stores, loads])
def test_as_many_rows_as_wavefronts_were_counted(choose, traces):
    chosen = choose(traces)
    figure = plots.bank_map(chosen)
    for name, access in chosen.items():
        lines = traces[name].lines
        (line,) = lines[(lines.line == access.line) & (lines.space == "shared")].itertuples()
        rows = {y for _, y, _ in boxes(axes(figure, f"banks {name}")).values()}
        assert len(rows) == line.wavefronts / line.requests


def test_the_caption_has_wavefronts_and_conflicts(traces):
    caption = plots.bank_map(stores(traces)).caption
    assert "“06” takes 4 wavefronts and 3 conflicts" in caption
    assert "“padded” takes 2 wavefronts and 1 conflict" in caption
    assert "“07” takes 1 wavefront and 0 conflicts" in caption
    caption = plots.bank_map(loads(traces)).caption
    assert "“06” takes 8 wavefronts and 4 conflicts" in caption
    assert "“08” takes 2 wavefronts and 0 conflicts" in caption


def test_lanes_that_go_together_are_one_group(traces):
    names = {
        name: [label.get_text() for label in axes(figure, f"banks {name}").get_yticklabels()]
        for figure in [plots.bank_map(loads(traces))]
        for name in ("07", "08")
    }
    assert names["07"] == ["lanes 0–7", "lanes 8–15", "lanes 16–23", "lanes 24–31"]
    assert names["08"] == ["lanes 0–15", "lanes 16–31"]


def said(figure):
    return [text.get_text() for text in figure.texts]


def test_the_key_speaks_of_what_is_drawn_alone(traces):
    conflicts = plots.bank_map({"06": loads(traces)["06"]})
    assert "a bank conflict: waits for the row above" in said(conflicts)
    none = plots.bank_map({"08": loads(traces)["08"]})
    assert not any("waits" in words or "×" in words for words in said(none))
    of_a = plots.bank_map({"08": shared(traces["08"], "load", "*(float4*)&a_column")})
    assert any("×n is n lanes" in words for words in said(of_a))


def test_the_map_of_banks_refuses_other_accesses(traces):
    elsewhere = next(a for a in traces["07"].run.accesses() if a.space == "global")
    with pytest.raises(ValueError, match="shared memory"):
        plots.bank_map({"A": elsewhere})
    with pytest.raises(ValueError, match="one access or more"):
        plots.bank_map({})


# ---- block, warp, lane ---------------------------------------------------------------------------


def area(figure, gid):
    found = [item for item in axes(figure, "map C").findobj() if item.get_gid() == gid]
    return sum(item.get_width() * item.get_height() for item in found)


@pytest.mark.parametrize(("name", "of_warp", "of_lane"), [("07", 2048, 64), ("08", 4096, 128)])
def test_the_levels_have_the_elements_that_are_stored(name, of_warp, of_lane, traces):
    figure = figures.levels(traces[name], warp=2, lane=9)
    assert area(figure, "block") == 128 * 128
    assert area(figure, "warp") == of_warp
    assert area(figure, "lane") == of_lane


def test_a_lane_stands_where_it_stores(traces):
    lane = 22
    figure = figures.levels(traces["08"], warp=1, lane=lane)
    grid = boxes(axes(figure, "lanes"))
    assert len(grid) == 32
    store = traces["08"].warp_access("C", op="store", warp=1)
    row, column = store.elements[lane][0]
    x, y, _ = grid[(lane,)]
    above = axes(figure, "pieces B").get_xticklabels()
    at_the_left = axes(figure, "pieces A").get_yticklabels()
    assert above[int(x)].get_text() == str(column)
    assert at_the_left[int(y)].get_text() == f"{row}–{row + 3}"


def test_neighbours_form_squares_or_strips(traces):
    squares = boxes(axes(figures.levels(traces["08"]), "lanes"))
    assert [squares[(lane,)][:2] for lane in range(4)] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    strips = boxes(axes(figures.levels(traces["by row"]), "lanes"))
    assert [strips[(lane,)][:2] for lane in range(4)] == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_lanes_and_pieces_are_drawn_nearly_as_high_as_the_tile(traces):
    figure = figures.levels(traces["08"])
    tile, lanes, pieces = (
        axes(figure, gid).get_position().height for gid in ("map C", "lanes", "pieces B")
    )
    assert 0.75 * tile < lanes + pieces < tile


def test_the_caption_of_the_levels_has_the_wavefronts(traces):
    assert "of A takes 2 wavefronts, that of B 2." in figures.levels(traces["08"]).caption
    assert "of A takes 2 wavefronts, that of B 4." in figures.levels(traces["by row"]).caption


def test_levels_refuse_what_is_not_there(traces):
    with pytest.raises(ValueError, match="stores nothing"):
        figures.levels(traces["08"], lane=32)
    with pytest.raises(TypeError, match="takes a trace"):
        figures.levels("08")
