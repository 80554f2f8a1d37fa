"""Figures of tiles and of what threads read of them: what they say is what the block did."""

import itertools

import pytest
from figures import (  # noqa: F401
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_is_a_sentence_below_everything,
    texts,
    words,
)

import gemmlab
from gemmlab import plots
from gemmlab.lessons.thread_tile_2d import figures

OWNS = {  # rung: M, N, K; of thread 37 its rows and columns of C; the first ones of its warp
    "03_shared_memory": ((64, 64, 128), [1], [5], (1, 0)),
    "04_thread_tile_1d": ((64, 64, 32), range(16), [37], (0, 32)),
    "05_thread_tile_2d": ((128, 64, 32), range(16, 24), range(20, 24), (16, 0)),
    "06_vectorized_loads": ((128, 128, 32), range(16, 24), range(40, 48), (16, 0)),
    "07_bank_conflicts": ((128, 128, 32), range(16, 24), [*range(20, 24), *range(84, 88)], (16, 0)),
    "08_warp_tiling": (
        (128, 128, 32),
        [row + down for row in (0, 16, 32, 48) for down in range(4)],
        [*range(76, 80), *range(108, 112)],
        (0, 64),
    ),
}
OUTER = [f"outer {name}" for name in OWNS]


@pytest.fixture(scope="module")
def traces():
    made = {}

    def trace(name, shape, **settings):
        key = (name, shape, *settings.items())
        if key not in made:
            made[key] = gemmlab.load(name, **settings).trace(*shape)
        return made[key]

    return trace


@pytest.fixture(scope="module", params=["reuse", "small", "odd", *OWNS, *OUTER])
def figure(request, traces):
    if request.param == "reuse":
        return plots.tile_reuse(traces("03_shared_memory", (64, 64, 128)))
    if request.param == "small":
        trace = traces("03_shared_memory", (16, 16, 16), TILE=8, BK=8)
        return plots.tile_reuse(trace, block=(1, 0, 0))
    if request.param == "odd":
        trace = traces("03_shared_memory", (20, 27, 13), TILE=8, BK=8)
        return plots.tile_reuse(trace, block=(3, 2, 0))
    name = request.param.removeprefix("outer ")
    draw = plots.thread_tile if name == request.param else figures.outer_product
    return draw(traces(name, OWNS[name][0]), thread=37)


def cells(figure, panel, gid):
    """The cells (row, column) under the rectangles with a gid, as they are drawn in a panel."""
    (ax,) = [ax for ax in figure.axes if ax.get_gid() == f"map {panel}"]
    return {
        (int(part.get_y()) + row, int(part.get_x()) + column)
        for part in ax.patches
        if part.get_gid() == gid
        for row in range(int(part.get_height()))
        for column in range(int(part.get_width()))
    }


def box(rows, columns):
    return set(itertools.product(rows, columns))


# ---- a tile's reuse ------------------------------------------------------------------------------


@pytest.mark.parametrize(("tile", "shape"), [(8, (16, 16, 16)), (32, (64, 64, 128))])
def test_each_element_is_loaded_once_and_read_as_often_as_a_tile_is_wide(tile, shape, traces):
    trace = traces("03_shared_memory", shape, **({} if tile == 32 else {"TILE": 8, "BK": 8}))
    figure = plots.tile_reuse(trace)
    step = trace.settings["BK"]
    for number in range(shape[2] // step):
        along = range(number * step, (number + 1) * step)
        assert cells(figure, "A", f"A step {number}") == box(range(tile), along)
        assert cells(figure, "B", f"B step {number}") == box(along, range(tile))
        assert words(figure).count(f"step {number}\nloaded 1×\nread {tile}×") == 2
    assert cells(figure, "C", "block") == box(range(tile), range(tile))
    amount = tile * shape[2]
    assert f"each of the {amount:,} elements of A 1× from global memory" in figure.caption
    said = " ".join(words(figure))
    assert f"{amount:,} loads" in said and f"{tile * amount:,} reads" in said


def test_where_there_is_room_every_element_carries_its_count(traces):
    figure = plots.tile_reuse(traces("03_shared_memory", (16, 16, 16), TILE=8, BK=8))
    counts = [text for text, _ in texts(figure) if (text.get_gid() or "").startswith("count A")]
    assert len(counts) == 8 * 16 and {text.get_text() for text in counts} == {"8"}


def test_at_the_edge_an_element_is_read_by_the_threads_that_are_there(traces):
    """Block (3, 2) of C, 20×27, has rows 16 to 19, columns 24 to 26; all its 64 threads read."""
    figure = plots.tile_reuse(
        traces("03_shared_memory", (20, 27, 13), TILE=8, BK=8), block=(3, 2, 0)
    )
    assert cells(figure, "C", "block") == box(range(16, 20), range(24, 27))
    assert cells(figure, "A", "A step 1") == box(range(16, 20), range(8, 13))
    assert cells(figure, "B", "B step 1") == box(range(8, 13), range(24, 27))
    assert "step 1\nloaded 1×\nread 8×" in words(figure)


# ---- what the lanes of a warp own, and one thread reads ------------------------------------------


def in_panel(some, first):
    """Rows or columns, counted from the first one that is drawn."""
    return [one - first for one in some]


@pytest.mark.parametrize("name", OWNS)
def test_a_thread_owns_and_reads_what_its_indices_say(name, traces):
    """The layouts of shared memory differ from rung to rung; what is read of A and B does not."""
    shape, rows, columns, (top, left) = OWNS[name]
    trace = traces(name, shape)
    figure = plots.thread_tile(trace, thread=37)
    step = range(trace.settings["BK"])
    owned = len(rows) * len(columns)
    assert f"owns {owned:,} element" in figure.caption
    assert f"{len(rows)} + {len(columns)} elements feed" in " ".join(words(figure))
    rows, columns = in_panel(rows, top), in_panel(columns, left)
    assert cells(figure, "C", "thread C") == box(rows, columns)
    assert cells(figure, "A", "thread A") == box(rows, [0])
    assert cells(figure, "B", "thread B") == box([0], columns)
    assert cells(figure, "A", "step A") == box(rows, step[1:])
    assert cells(figure, "B", "step B") == box(step[1:], columns)
    assert cells(figure, "C", "lane 5") == box(rows, columns)


@pytest.mark.parametrize("name", OWNS)
def test_a_warp_reads_the_rows_and_columns_of_what_its_lanes_own(name, traces):
    trace = traces(name, OWNS[name][0])
    figure = plots.thread_tile(trace, thread=37)
    step = range(trace.settings["BK"])
    lanes = [cells(figure, "C", f"lane {lane}") for lane in range(32)]
    owned = set().union(*lanes)
    assert len(owned) == sum(map(len, lanes)) == 32 * len(lanes[5])
    rows, columns = {row for row, _ in owned}, {column for _, column in owned}
    assert cells(figure, "A", "warp A") == box(rows, step)
    assert cells(figure, "B", "warp B") == box(step, columns)
    assert cells(figure, "block", "thread") <= cells(figure, "block", "warp")
    assert len(cells(figure, "block", "warp")) == len(owned)


def readers(figure, matrix):
    """Where the label begins -> the lanes, in one line, that it names."""
    start = f"readers {matrix} "
    return {
        int(text.get_gid().removeprefix(start)): text.get_text().replace("\n", ", ")
        for text, _ in texts(figure)
        if (text.get_gid() or "").startswith(start)
    }


def test_beside_the_tiles_stand_the_lanes_that_read_them(traces):
    column = plots.thread_tile(traces("04_thread_tile_1d", (64, 64, 32)), thread=37)
    assert readers(column, "A") == {0: "0–31"}
    # A column is too narrow for each lane's number: every second stands there, that of thread 37
    # among them, and the same ones in C, all in one line.
    odd = range(1, 32, 2)
    assert readers(column, "B") == {32 + lane: f"{lane}" for lane in odd}
    numbers = [text for text, _ in texts(column) if (text.get_gid() or "").startswith("number ")]
    assert [text.get_text() for text in numbers] == [f"{lane}" for lane in odd]
    assert len({text.get_position()[1] for text in numbers}) == 1
    rectangle = plots.thread_tile(traces("05_thread_tile_2d", (128, 64, 32)), thread=37)
    assert readers(rectangle, "A") == {16: "0–15", 24: "16–31"}
    assert readers(rectangle, "B") == {4 * x: f"{x}, {x + 16}" for x in range(16)}
    mixed = plots.thread_tile(traces("08_warp_tiling", (128, 128, 32)), thread=37)
    assert set(readers(mixed, "A").values()) == {"8 lanes"}


def test_the_second_block_is_drawn_at_its_place_in_c(traces):
    trace = traces("04_thread_tile_1d", (64, 128, 32))
    figure = plots.thread_tile(trace, thread=37, block=(1, 1, 0))
    assert "rows 32 to 47, column 101" in words(figure)
    assert cells(figure, "C", "thread C") == box(range(16), [5])  # from its warp's corner
    assert cells(figure, "block", "thread") == box(range(16), [37])  # from the block's


def test_a_thread_can_be_named_by_its_index(traces):
    trace = traces("03_shared_memory", (64, 64, 128))
    by_number = plots.thread_tile(trace, thread=67)
    assert plots.thread_tile(trace, thread=(3, 2, 0)).caption == by_number.caption
    assert {"threadIdx (3, 2, 0)", "warp 2, lane 3"} <= set(words(by_number))


def test_loads_are_counted_as_instructions(traces):
    """A tile's row of 64 floats is read 4 at a time; with one float more, its rows cannot be."""
    shape = (64, 64, 128)
    plain = " ".join(words(plots.thread_tile(traces("03_shared_memory", shape))))
    padded = " ".join(words(plots.thread_tile(traces("03_shared_memory", shape, PAD=1))))
    assert f"{64 // 4 + 64} load instructions" in plain
    assert f"{64 + 64} load instructions" in padded


# ---- the outer product ---------------------------------------------------------------------------


def drawn(figure, panel, start):
    """What the rectangles of a panel are called, without `start`."""
    (ax,) = [ax for ax in figure.axes if ax.get_gid() == panel]
    gids = [part.get_gid() for part in ax.patches]
    return [gid.removeprefix(start) for gid in gids if gid.startswith(start)]


@pytest.mark.parametrize("name", OWNS)
def test_each_register_of_a_meets_each_of_b(name, traces):
    shape, rows, columns, _ = OWNS[name]
    figure = figures.outer_product(traces(name, shape), thread=37)
    down, across = len(rows), len(columns)
    assert drawn(figure, "registers A", "A ") == [f"a{i}" for i in range(down)]
    assert drawn(figure, "registers B", "B ") == [f"b{j}" for j in range(across)]
    assert drawn(figure, "sums", "C ") == [f"a{i}·b{j}" for i in range(down) for j in range(across)]
    said = words(figure)
    labels = {text.get_gid(): text.get_text() for text, _ in texts(figure)}
    for row in rows:
        assert (labels[f"row {row}"], labels[f"used {row}"]) == (f"{row}", f"{across}×")
    for column in columns:
        assert f"{column}\n{down}×" in said
    assert f"{down * across} multiply-adds for one k" in " ".join(said)


@pytest.mark.parametrize(
    ("name", "k", "waiting"),
    [
        ("05_thread_tile_2d", 0, 8 * 3),  # a load of A brings four k, each of eight rows
        ("05_thread_tile_2d", 6, 8 * 1),  # of k 4 to 7 one is still to come
        ("06_vectorized_loads", 0, 0),  # A is transposed: a load brings four rows of one k
    ],
)
def test_what_the_same_loads_bring_for_a_later_k_waits(name, k, waiting, traces):
    figure = figures.outer_product(traces(name, OWNS[name][0]), thread=37, k=k)
    assert len(drawn(figure, "registers A", "waiting")) == waiting
    assert not drawn(figure, "registers B", "waiting")
    assert (f"{waiting} more elements came" in figure.caption) == (waiting > 0)


def test_a_later_k_lies_at_the_right_as_in_the_matrix(traces):
    figure = figures.outer_product(traces("05_thread_tile_2d", (128, 64, 32)), thread=37)
    (ax,) = [ax for ax in figure.axes if ax.get_gid() == "registers A"]
    at = {part.get_gid(): [] for part in ax.patches}
    for part in ax.patches:
        at[part.get_gid()].append(part.get_x())
    assert at.pop("waiting A") and ax.get_xlim()[0] == 0
    assert {x for places in at.values() for x in places} == {0}


def test_loads_for_one_k_are_those_of_the_step_shared_among_its_ks(traces):
    """16 bytes each: four k of a row of A, or four columns of B. 8 rows / 4 and 4 columns / 4."""
    said = " ".join(words(figures.outer_product(traces("05_thread_tile_2d", (128, 64, 32)))))
    assert "48 in the step of 16, so 3 for one k" in said


def test_a_k_outside_of_the_step_is_refused(traces):
    trace = traces("05_thread_tile_2d", (128, 64, 32))
    for k in (-1, 16, True, 1.5):
        with pytest.raises(ValueError, match="first step has k 0 to 15"):
            figures.outer_product(trace, k=k)


# ---- what cannot be drawn ------------------------------------------------------------------------


@pytest.mark.parametrize("thread", [1024, -1, (32, 0, 0), (0, 0, 1)])
def test_a_thread_that_is_not_there_is_refused(thread, traces):
    with pytest.raises(ValueError, match="there is no thread"):
        plots.thread_tile(traces("03_shared_memory", (64, 64, 128)), thread=thread)


def test_a_thread_beyond_the_edge_of_c_is_refused(traces):
    trace = traces("03_shared_memory", (20, 27, 13), TILE=8, BK=8)
    with pytest.raises(ValueError, match="stores nothing"):
        plots.thread_tile(trace, thread=63, block=(3, 2, 0))


def test_a_kernel_without_shared_memory_is_refused():
    trace = gemmlab.load("02_coalescing").trace(16, 16, 16)
    for draw in (plots.tile_reuse, plots.thread_tile, figures.outer_product):
        with pytest.raises(ValueError, match="reads nothing from shared memory"):
            draw(trace)
        with pytest.raises(TypeError, match="takes a trace"):
            draw(None)


def test_an_order_that_does_not_fit_the_product_is_noticed(traces, monkeypatch):
    trace = traces("04_thread_tile_1d", (64, 64, 32))
    accesses = trace.run.accesses((0, 0, 0))
    loads = [at for at, one in enumerate(accesses) if one.array == "A"]
    swapped = list(accesses)
    swapped[loads[0]], swapped[loads[-1]] = accesses[loads[-1]], accesses[loads[0]]
    monkeypatch.setattr(type(trace.run), "accesses", lambda *_: swapped)
    with pytest.raises(ValueError, match="seems to read what its elements of C do not need"):
        plots.thread_tile(trace, thread=37)
