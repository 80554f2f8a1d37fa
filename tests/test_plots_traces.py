"""Figures of traces: what is drawn is what blocks, warps and threads did."""

import itertools
from collections import defaultdict

import numpy as np
import pytest
from figures import axes, by_gid, test_it_can_be_read, texts, the_one, words

import gemmlab as gl
from gemmlab import plots
from gemmlab.analysis import facts, k_steps
from gemmlab.lessons.fp32_summit import hazards
from gemmlab.lessons.fp32_summit.figures import SLOTS, loads_under_way
from gemmlab.lessons.register_banks import figures as register_banks
from gemmlab.lessons.register_banks import pipeline
from gemmlab.lessons.thread_tile_2d.figures import outer_product
from gemmlab.lessons.vectorized_loads.figures import access_widths, staging
from gemmlab.lessons.warp_tiling.figures import levels
from gemmlab.plots.kernel_view import INTENSITIES, _patterns
from gemmlab.records.roofs import recorded_ceilings
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import SHARED_LOAD, class_of
from ptxsim.metrics import BANK_BYTES, BANKS, wavefronts

THREE, FOUR, FIVE = "03_shared_memory", "04_thread_tile_1d", "05_thread_tile_2d"
SIX, SEVEN, EIGHT = "06_vectorized_loads", "07_bank_conflicts", "08_warp_tiling"
NINE, TEN = "09_double_buffering", "10_register_banks"
SMALL = {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 8}  # of rung 10
OWNS = {  # rung: M, N, K; of thread 37 its rows and columns of C; the first ones of its warp
    THREE: ((64, 64, 128), [1], [5], (1, 0)),
    FOUR: ((64, 64, 32), range(16), [37], (0, 32)),
    FIVE: ((128, 64, 32), range(16, 24), range(20, 24), (16, 0)),
    SEVEN: ((128, 128, 32), range(16, 24), [*range(20, 24), *range(84, 88)], (16, 0)),
    EIGHT: (
        (128, 128, 32),
        [row + down for row in (0, 16, 32, 48) for down in range(4)],
        [*range(76, 80), *range(108, 112)],
        (0, 64),
    ),
}
WALKS = {  # two by two blocks, four steps along K
    "01_naive": (128, 16, 64), THREE: (64, 64, 256), NINE: (256, 256, 32),
    "14_wmma": (256, 512, 256),
}  # fmt: skip


@pytest.fixture(scope="module")
def traces():
    made = {}

    def trace(name, shape, **settings):
        key = (name, shape, *settings.items())
        if key not in made:
            made[key] = gl.load(name, **settings).trace(*shape)
        return made[key]

    return trace


@pytest.fixture(scope="module")
def walks():
    """Frames of a block's way along K; of rungs with stages, with three."""
    made = {}

    def walk(name):
        if name not in made:
            settings = {"STAGES": 3} if name in (NINE, "14_wmma") else {}
            trace = gl.load(name, **settings).trace(*WALKS[name], blocks=[(0, 0, 0)])
            made[name] = k_steps.of(trace)
        return made[name]

    return walk


@pytest.fixture(scope="module")
def trips():
    return {name: loops.loop(gl.load(name, "sm_90a")) for name in (NINE, TEN)}


def small_reuse(traces):
    return plots.tile_reuse(traces(THREE, (16, 16, 16), TILE=8, BK=8), block=(1, 0, 0))


def order_of_execution(traces):
    three = [traces(EIGHT, (128, 128, 32), WM=32), traces(NINE, (128, 128, 32)),
             traces(NINE, (128, 128, 32), STAGES=3)]  # fmt: skip
    return plots.timeline(*three)


def shared(trace, op, start):
    """The first access of warp 0 to shared memory by a line that begins so."""
    lines = trace.text.splitlines()
    return next(
        access for access in trace.run.accesses((0, 0, 0), 0)
        if access.space == "shared" and access.operation == op
        and lines[access.line - 1].strip().startswith(start)
    )  # fmt: skip


def banked(traces, op):
    shape, line = (128, 128, 16), "a[k + 0]" if op == "store" else "*(float4*)&fragment_b"
    several = {"06": traces(SIX, shape), "07": traces(SEVEN, shape)}
    if op == "load":
        several["08"] = traces(EIGHT, shape)
    return several, {name: shared(trace, op, line) for name, trace in several.items()}


def view(name, **settings):
    return plots.kernel_view(facts.of(gl.load(name, **settings)), recorded_ceilings())


def small_pipeline():
    return pipeline.of(gl.load(TEN, **SMALL).trace(64, 64, 96))


FIGURES = {
    "reuse": lambda t, w: plots.tile_reuse(t(THREE, (64, 64, 128))),
    "reuse, small": lambda t, w: small_reuse(t),
    **{
        f"{draw.__name__} {name}": lambda t, w, name=name, draw=draw: draw(
            t(name, OWNS[name][0]), thread=37
        )
        for name in OWNS
        for draw in (plots.thread_tile, outer_product)
        if (name, draw) != (EIGHT, outer_product)
    },
    "widths": lambda t, w: access_widths({SIX: t(SIX, (128, 128, 32)).warp_access("B")}),
    "staging": lambda t, w: staging(t(SIX, (128, 128, 32))),
    "staging, swizzled": lambda t, w: staging(t(SEVEN, (128, 128, 32))),
    "banks, stores": lambda t, w: plots.bank_map(banked(t, "store")[1]),
    "banks, loads": lambda t, w: plots.bank_map(banked(t, "load")[1]),
    "levels": lambda t, w: levels(
        t(EIGHT, (128, 128, 16)),
        warp=3,
        lane=17,
        caption="The three levels of a tile of C, of warp 3 and its lane 17.",
    ),
    "timeline": lambda t, w: order_of_execution(t),
    "ring": lambda t, w: register_banks.pipeline(small_pipeline()),
    **{f"steps {name}": lambda t, w, name=name: plots.steps(w(name)) for name in WALKS},
    **{
        f"step {number} {name}": lambda t, w, name=name, number=number: plots.step(
            w(name), number, f"Frame {number} of a block of {name} on its way along K."
        )
        for name, number in ((THREE, 8), (NINE, 0), (NINE, 2), ("14_wmma", 5))
    },
    "view 01": lambda t, w: view("01_naive"),
    "view 07": lambda t, w: view(SEVEN, SWIZZLE=0, SPLIT=0),
    "view 14": lambda t, w: view("14_wmma", BM=128, BN=128, BK=32),
    "view 15": lambda t, w: view("15_mma_sync", DTYPE=3),
    "view 18": lambda t, w: view("18_persistent"),
}


@pytest.fixture(scope="module", params=FIGURES, ids=str)
def figure(request, traces, walks):
    return FIGURES[request.param](traces, walks)


def test_the_figure_of_loads_under_way_can_be_read(trips):
    test_it_can_be_read(loads_under_way(trips))


def cells(figure, panel, gid):
    """The cells (row, column) under the rectangles with a gid, as they are drawn in a panel."""
    return {
        (int(part.get_y()) + row, int(part.get_x()) + column)
        for part in axes(figure, f"map {panel}").patches
        if part.get_gid() == gid
        for row in range(int(part.get_height()))
        for column in range(int(part.get_width()))
    }


def box(rows, columns):
    return set(itertools.product(rows, columns))


# ---- tiles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tile", "shape"), [(8, (16, 16, 16)), (32, (64, 64, 128))])
def test_each_element_is_loaded_once_and_read_as_often_as_a_tile_is_wide(tile, shape, traces):
    trace = traces(THREE, shape, **({} if tile == 32 else {"TILE": 8, "BK": 8}))
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
    text = " ".join(words(figure))
    assert f"{amount:,} loads" in text and f"{tile * amount:,} reads" in text
    counts = [text.get_text() for text, _ in texts(figure) if "count A" in (text.get_gid() or "")]
    assert counts == (["8"] * 8 * 16 if tile == 8 else []), "where there is room for them"


@pytest.mark.parametrize("name", OWNS)
def test_a_thread_owns_and_reads_what_its_indices_say(name, traces):
    """The layouts of shared memory differ from rung to rung; what is read of A and B does not."""
    shape, rows, columns, (top, left) = OWNS[name]
    trace = traces(name, shape)
    figure = plots.thread_tile(trace, thread=37)
    step = range(trace.settings["BK"])
    assert f"owns {len(rows) * len(columns):,} element" in figure.caption
    assert f"{len(rows)} + {len(columns)} elements feed" in " ".join(words(figure))
    rows, columns = [row - top for row in rows], [column - left for column in columns]
    assert cells(figure, "C", "thread C") == cells(figure, "C", "lane 5") == box(rows, columns)
    assert cells(figure, "A", "thread A") == box(rows, [0])
    assert cells(figure, "B", "thread B") == box([0], columns)
    assert cells(figure, "A", "step A") == box(rows, step[1:])
    assert cells(figure, "B", "step B") == box(step[1:], columns)
    lanes = [cells(figure, "C", f"lane {lane}") for lane in range(32)]
    owned = set().union(*lanes)
    assert len(owned) == sum(map(len, lanes)) == 32 * len(lanes[5])
    assert cells(figure, "A", "warp A") == box({row for row, _ in owned}, step)
    assert cells(figure, "B", "warp B") == box(step, {column for _, column in owned})
    assert cells(figure, "block", "thread") <= cells(figure, "block", "warp")


def test_beside_the_tiles_stand_the_lanes_that_read_them(traces):
    def readers(name, matrix):
        figure = plots.thread_tile(traces(name, OWNS[name][0]), thread=37)
        labels = by_gid(figure, f"readers {matrix} ")
        return {int(text.get_gid().split()[-1]): text.get_text().split("\n") for text in labels}

    assert readers(FOUR, "A") == {0: ["0–31"]}
    # A column is too narrow for each lane's number: every second stands there, thread 37's too.
    assert readers(FOUR, "B") == {32 + lane: [f"{lane}"] for lane in range(1, 32, 2)}
    assert readers(FIVE, "A") == {16: ["0–15"], 24: ["16–31"]}
    assert readers(FIVE, "B") == {4 * x: [f"{x}", f"{x + 16}"] for x in range(16)}
    assert next(iter(readers(EIGHT, "A").values())) == ["8 lanes"]


def test_loads_are_counted_as_instructions(traces):
    """A tile's row of 64 floats is read 4 at a time; with one float more, its rows cannot be."""
    plain = " ".join(words(plots.thread_tile(traces(THREE, (64, 64, 128)))))
    padded = " ".join(words(plots.thread_tile(traces(THREE, (64, 64, 128), PAD=1))))
    assert f"{64 // 4 + 64} load instructions" in plain
    assert f"{64 + 64} load instructions" in padded


def test_what_cannot_be_followed_is_refused(traces, monkeypatch):
    flat = traces("02_coalescing", (16, 16, 16))
    for draw in (plots.tile_reuse, plots.thread_tile, plots.timeline, outer_product):
        with pytest.raises(ValueError, match="reads nothing from shared memory"):
            draw(flat)
    with pytest.raises(ValueError, match="stores nothing in C"):
        plots.thread_tile(traces(THREE, (64, 64, 128)), thread=1024)
    with pytest.raises(ValueError, match="columns are too many"):
        plots.timeline(gl.load(EIGHT).trace(128, 128, 128))
    with pytest.raises(ValueError, match="20 tiles do not fit"):
        register_banks.pipeline(pipeline.of(gl.load(TEN, **SMALL).trace(64, 64, 320)))
    trace = traces(FOUR, (64, 64, 32))
    accesses = trace.run.accesses((0, 0, 0))
    loads = [at for at, access in enumerate(accesses) if access.array == "A"]
    swapped = list(accesses)
    swapped[loads[0]], swapped[loads[-1]] = accesses[loads[-1]], accesses[loads[0]]
    monkeypatch.setattr(type(trace.run), "accesses", lambda *_: swapped)
    with pytest.raises(ValueError, match="seems to read what its elements of C do not need"):
        plots.thread_tile(trace, thread=37)


# ---- loads of 4 and 16 bytes ---------------------------------------------------------------------


@pytest.mark.parametrize("name", [FIVE, SIX])
def test_every_lane_stands_at_the_bytes_it_loads(name, traces):
    access = traces(name, (128, 128, 32)).warp_access("A" if name == SIX else "B")
    figure = access_widths({name: access})
    lines = sorted({int(address) // 128 for address in access.addresses})
    for lane, address in zip(access.lanes, access.addresses, strict=True):
        part = the_one(figure, f"lane {lane}")
        line, byte = divmod(int(address), 128)
        assert part.get_x() + part.get_width() / 2 == pytest.approx(byte + access.width / 2)
        assert int(part.get_y() + part.get_height() / 2) == lines.index(line)
    moved = f"{32 * access.width} bytes in 1 request and {access.sectors} sectors"
    assert moved in figure.caption and "Every byte" in figure.caption


@pytest.mark.parametrize(
    ("name", "sentence"),
    [(SIX, "8 banks of 32 and takes 4 wavefronts"), (SEVEN, "32 banks of 32 and takes 1 wave")],
)
def test_every_lane_stores_where_it_was_traced(name, sentence, traces):
    trace = traces(name, (128, 128, 32))
    figure = staging(trace)
    traced = [a for a in trace.run.accesses((0, 0, 0), 0) if a.array == "shared memory"][:4]
    rows = sorted({int(address) // 128 for store in traced for address in store.addresses})
    for number, store in enumerate(traced):
        for lane, address in enumerate(store.addresses):
            row, byte = divmod(int(address), 128)
            cell = the_one(figure, f"store {number} lane {lane}")
            assert cell.get_xy() == (byte // 4, rows.index(row))
    counted = int(wavefronts(traced[0].addresses[None], traced[0].active[None], 4, 1)[0, 0])
    assert sentence in figure.caption and f"takes {counted} wavefront" in figure.caption
    names = [label.get_text() for label in axes(figure, "banks").get_yticklabels()]
    assert names == [f"A[:, {k}], byte {512 * k:,}" for k in range(16)]
    if name == SIX:
        assert [part.get_xy() for part in by_gid(axes(figure, "banks"), "read ")] == [(0, 0)]
        assert {"read by lanes 0–15", "read first"} <= set(words(figure))


# ---- banks, and the levels of a tile -------------------------------------------------------------


@pytest.mark.parametrize("op", ["store", "load"])
def test_every_lane_stands_in_its_banks_and_a_row_is_a_wavefront_that_was_counted(op, traces):
    several, accesses = banked(traces, op)
    figure = plots.bank_map(accesses)
    for name, access in accesses.items():
        parts = by_gid(axes(figure, f"banks {name}"), "lanes ")
        lanes_of = [tuple(map(int, part.get_gid().split()[1:])) for part in parts]
        assert sorted(itertools.chain(*lanes_of)) == list(range(32))
        for part, lanes in zip(parts, lanes_of, strict=True):
            (address,) = {int(access.addresses[lane]) for lane in lanes}
            assert int(part.get_x()) == address // BANK_BYTES % BANKS
            assert round(part.get_width()) == access.size // BANK_BYTES
        lines = several[name].lines
        (line,) = lines[(lines.line == access.line) & (lines.space == "shared")].itertuples()
        assert len({part.get_y() for part in parts}) == line.wavefronts / line.requests
    expected = {"store": "“06” takes 4 wavefronts and 3 conflicts",
                "load": "“08” takes 2 wavefronts and 0 conflicts"}  # fmt: skip
    assert expected[op] in figure.caption


@pytest.mark.parametrize(("name", "of_warp", "of_lane"), [(SEVEN, 2048, 64), (EIGHT, 4096, 128)])
def test_the_levels_have_the_elements_that_are_stored(name, of_warp, of_lane, traces):
    trace, lane = traces(name, (128, 128, 16)), 22
    figure = levels(trace, warp=1, lane=lane, caption="Three levels of a tile of C, and 1 lane.")
    area = {gid: len(cells(figure, "C", gid)) for gid in ("block", "warp", "lane")}
    assert area == {"block": 128 * 128, "warp": of_warp, "lane": of_lane}
    (row, column), *_ = trace.warp_access("C", op="store", warp=1).elements[lane].tolist()
    cell = the_one(figure, f"lanes {lane}")
    above = axes(figure, "pieces B").get_xticklabels()
    at_the_left = axes(figure, "pieces A").get_yticklabels()
    assert above[int(cell.get_x())].get_text() == str(column)
    assert at_the_left[int(cell.get_y())].get_text() == f"{row}–{row + 3}"


# ---- orders of execution -------------------------------------------------------------------------

TILES, PER_TILE = 4, 512  # multiply-adds of a thread for one tile: 8×8 sums, 8 along K
ORDERS = {EIGHT: 0, f"{NINE}, STAGES=1": 1, f"{NINE}, STAGES=3": 2}  # tiles loaded ahead


def test_tiles_are_loaded_ahead_and_every_barrier_is_drawn(traces):
    figure = order_of_execution(traces)
    barriers = {EIGHT: 2 * TILES, f"{NINE}, STAGES=1": 1 + TILES, f"{NINE}, STAGES=3": TILES}
    for name, ahead in ORDERS.items():
        ax = axes(figure, f"order {name}")
        at = defaultdict(list)
        for kind in ("load", "store", "product"):
            for part in by_gid(ax, kind):
                at[part.get_gid()].append(round(part.get_x()))
        assert [len(at[f"product {tile}"]) for tile in range(TILES)] == [8] * TILES, "one a k"
        for tile in range(1, TILES):
            done = [t for t in range(TILES) if at[f"product {t}"][0] < at[f"load {tile}"][0]]
            assert len(done) == max(0, tile - ahead), (name, tile)
        assert len(by_gid(ax, "barrier")) == barriers[name]
        assert len(by_gid(ax, "wait")) == (TILES if ahead == 2 else 0)
        assert ("store 0" in at) == (ahead < 2)
        for flight in by_gid(ax, "flight"):
            tile = flight.get_gid().split()[1]
            begin, end = flight.get_xdata()
            needed = at[f"store {tile}"] or at[f"product {tile}"]
            assert (begin, end) == (at[f"load {tile}"][0] + 1, needed[0])
        buffers = [text.get_text() for text in ax.texts if "buffer" in text.get_text()]
        assert buffers == [f"{tile}, buffer {tile % (ahead + 1)}" for tile in range(TILES)]
    start = "multiply-adds of a thread while a tile is on its way: "
    labels = [word.removeprefix(start) for word in words(figure) if word.startswith(start)]
    assert labels == ["0", str(PER_TILE), f"{2 * PER_TILE:,}"]
    assert f"0 in {EIGHT}, {PER_TILE} in {NINE}, STAGES=1 and" in figure.caption


def test_waits_at_mbarriers_are_drawn_and_told_from_barriers():
    """A warp of 10 meets one barrier of the block, and waits at mbarriers around each tile."""
    figure = plots.timeline(gl.load(TEN, **SMALL).trace(64, 64, 64))
    ax = axes(figure, f"order {TEN}")
    drawn = {kind: len(by_gid(ax, kind)) for kind in ("barrier", "warp's barrier", "mbarrier")}
    empty = 2  # waits until a place is empty: for tiles 2 and 3, which are copied in the loop
    assert drawn == {"barrier": 1, "warp's barrier": TILES - 1, "mbarrier": TILES + empty}
    assert {"barrier of the warp", "wait at an mbarrier"} <= set(words(figure))


def left(artist):
    return artist.get_x() if hasattr(artist, "get_x") else artist.get_xdata()[0]


def test_a_ring_has_every_event_in_its_order_and_in_the_row_of_its_place():
    traced = small_pipeline()
    figure = register_banks.pipeline(traced)
    places = [left(the_one(figure, f"{event.kind} {event.tile}")) for event in traced.events]
    assert places == sorted(set(places)), "from left to right, each once"
    tops = defaultdict(set)
    for event in traced.events:
        if event.kind in (pipeline.COPIES, pipeline.READS):
            tops[event.place].add(the_one(figure, f"{event.kind} {event.tile}").get_y())
    assert len(tops) == traced.places and all(len(ys) == 1 for ys in tops.values())
    for way in by_gid(axes(figure, "ring"), "way "):
        tile = way.get_gid().split()[1]
        start, end = way.get_xdata()
        assert left(the_one(figure, f"copies {tile}")) < start < end
        assert end == left(the_one(figure, f"awaits full {tile}"))
    assert "Of the 2,048 elements of a tile this warp copies 512 and reads 1,280." in figure.caption


# ---- a block's way along K -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [THREE, NINE])
def test_outlines_and_numbers_of_a_step_are_those_of_its_frame(name, walks):
    frames = walks(name)
    for number, frame in enumerate(frames):
        figure = plots.step(frames, number, "A frame.")

        def drawn(panel, gid, figure=figure):
            return cells(figure, panel, gid)

        for array in "AB":
            loaded, read, arriving = (
                set(map(tuple, np.argwhere(masks[array]).tolist()))
                for masks in (frame.loaded, frame.read, frame.arriving)
            )
            assert drawn(array, "loaded") == loaded and drawn(array, "read") == read
            assert arriving <= drawn(array, "arriving") | loaded
            shown = [text.get_text() for text in axes(figure, f"map {array}").texts]
            buffers = {int(number) for number in np.unique(frame.kept[array]) if number >= 0}
            assert {word for word in shown if word.isdigit()} == set(map(str, buffers))
        assert drawn("C", "written") == set(map(tuple, np.argwhere(frame.written).tolist()))
        progress = the_one(figure, "progress").get_text()
        assert progress == "written" or progress.startswith(f"{frame.products[0]} of ")
        assert any(f"Frame {number + 1} of {len(frames)}" in word for word in words(figure))


# ---- the view of a kernel, loads under way -------------------------------------------------------


def test_what_is_not_known_has_no_point():
    """Where DRAM bytes were not counted, a line says where it may be; without roofs, nothing."""
    seen, known = facts.of(gl.load("14_wmma", BM=128, BN=128, BK=32)), recorded_ceilings()
    figure = plots.kernel_view(seen, known)
    assert seen.speed.gflops > seen.intensity * known.bytes_per_second / 1e9
    first, last = the_one(figure, "somewhere").get_xdata()
    assert the_one(figure, "asked").get_xdata()[0] < first, "there the roof is lower than the speed"
    assert last == INTENSITIES[1]
    assert "not counted" in the_one(figure, "point label").get_text()
    bare = plots.kernel_view(facts.of(gl.load(THREE)), None)
    assert "TFLOP/s" in the_one(bare, "speed label").get_text()
    assert not [*by_gid(bare, "point"), *by_gid(bare, "somewhere"), *by_gid(bare, "asked")]


def test_loads_of_one_line_that_differ_are_shown_each():
    """Rung 11 reads A and B by a function of a header, so that both have the line of the call."""
    ours = facts.of(gl.load("11_fused_epilogue")).trace.run.accesses(warp=0)
    expected, shown = defaultdict(set), defaultdict(set)
    for access in ours:
        if (access.space, access.operation) == ("shared", "load"):
            expected[access.line].add(len(set(access.addresses[access.active].tolist())))
    for banks, _, lines in _patterns(ours):
        if banks.access.operation == "load":
            for line in lines:
                shown[line].add(len(set(banks.access.addresses[banks.access.active].tolist())))
    assert shown == expected and all(len(counts) > 1 for counts in expected.values())


def test_a_bar_reaches_from_a_load_to_who_waits_for_it_before_its_result_is_used(trips):
    figure = loads_under_way(trips)
    for name, trip in trips.items():
        code = trip.instructions * 2
        for start, end in hazards.flights(trip.instructions):
            assert class_of(trip.instructions[start]) == SHARED_LOAD
            assert trip.instructions[end % len(trip)].control.waits_for
            mine = set(hazards.effect(code[start]).writes)
            uses = (at for at in range(start + 1, len(code))
                    if mine & set(hazards.effect(code[at]).reads))  # fmt: skip
            assert end <= next(uses, end)  # some load nothing, for nobody
            if start < SLOTS:
                bar = the_one(figure, f"load at {start} of {name}")
                assert (bar.get_x(), bar.get_width()) == (start, min(end, SLOTS) - start)
