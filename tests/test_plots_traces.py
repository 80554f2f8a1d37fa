"""Figures of traces: what is drawn is what blocks, warps and threads did."""

from functools import partial

import pytest
from figures import test_it_can_be_read, words  # noqa: F401

import gemmlab as gl
from gemmlab import plots
from gemmlab.analysis import facts, k_steps
from gemmlab.lessons.double_buffering.figures import timeline
from gemmlab.lessons.register_banks import figures as register_banks
from gemmlab.lessons.register_banks import pipeline
from gemmlab.lessons.shared_memory.figures import tile_reuse
from gemmlab.lessons.thread_tile_2d.figures import outer_product
from gemmlab.lessons.vectorized_loads.figures import staging
from gemmlab.lessons.warp_tiling.figures import levels
from gemmlab.records.roofs import recorded_ceilings

THREE, FOUR, FIVE = "03_shared_memory", "04_thread_tile_1d", "05_thread_tile_2d"
SIX, SEVEN, EIGHT = "06_vectorized_loads", "07_bank_conflicts", "08_warp_tiling"
NINE, TEN = "09_double_buffering", "10_register_banks"
SMALL = {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 8}  # of rung 10
OWNS = {  # rung: M, N, K; rows and columns of C that a thread owns
    THREE: ((64, 64, 128), 1, 1),
    FOUR: ((64, 64, 32), 16, 1),
    FIVE: ((128, 64, 32), 8, 4),
    SEVEN: ((128, 128, 32), 8, 8),
    EIGHT: ((128, 128, 32), 16, 8),
}
WALKS = {  # two by two blocks, four steps along K
    THREE: (64, 64, 256), NINE: (256, 256, 32),
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


def order_of_execution(traces):
    three = [traces(EIGHT, (128, 128, 32), WM=32), traces(NINE, (128, 128, 32)),
             traces(NINE, (128, 128, 32), STAGES=3)]  # fmt: skip
    return timeline(*three)


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
    "reuse": lambda t, w: tile_reuse(t(THREE, (16, 16, 16), TILE=8, BK=8), block=(1, 0, 0)),
    **{
        f"thread_tile {name}": lambda t, w, name=name: plots.thread_tile(
            t(name, OWNS[name][0]), thread=37
        )
        for name in OWNS
    },
    "outer_product": lambda t, w: outer_product(t(FIVE, OWNS[FIVE][0]), thread=37),
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


# ---- tiles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OWNS)
def test_a_thread_owns_and_reads_what_its_indices_say(name, traces):
    """The layouts of shared memory differ from rung to rung; what is read of A and B does not."""
    shape, rows, columns = OWNS[name]
    figure = plots.thread_tile(traces(name, shape), thread=37)
    assert f"owns {rows * columns:,} element" in figure.caption
    assert f"{rows} + {columns} elements feed" in " ".join(words(figure))


def test_loads_are_counted_as_instructions(traces):
    """A tile's row of 64 floats is read 4 at a time; with one float more, its rows cannot be."""
    plain = " ".join(words(plots.thread_tile(traces(THREE, (64, 64, 128)))))
    padded = " ".join(words(plots.thread_tile(traces(THREE, (64, 64, 128), PAD=1))))
    assert f"{64 // 4 + 64} load instructions" in plain
    assert f"{64 + 64} load instructions" in padded


def test_what_cannot_be_followed_is_refused(traces, monkeypatch):
    flat = traces("02_coalescing", (16, 16, 16))
    for draw in (partial(tile_reuse, block=(0, 0, 0)), plots.thread_tile, timeline, outer_product):
        with pytest.raises(ValueError, match="reads nothing from shared memory"):
            draw(flat)
    with pytest.raises(ValueError, match="stores nothing in C"):
        plots.thread_tile(traces(THREE, (64, 64, 128)), thread=1024)
    trace = traces(FOUR, (64, 64, 32))
    accesses = trace.run.accesses((0, 0, 0))
    loads = [at for at, access in enumerate(accesses) if access.array == "A"]
    swapped = list(accesses)
    swapped[loads[0]], swapped[loads[-1]] = accesses[loads[-1]], accesses[loads[0]]
    monkeypatch.setattr(type(trace.run), "accesses", lambda *_: swapped)
    with pytest.raises(ValueError, match="seems to read what its elements of C do not need"):
        plots.thread_tile(trace, thread=37)


# ---- orders of execution -------------------------------------------------------------------------

PER_TILE = 512  # multiply-adds of a thread for one tile: 8×8 sums, 8 along K


def test_multiply_adds_are_counted_while_a_tile_is_on_its_way(traces):
    figure = order_of_execution(traces)
    start = "multiply-adds of a thread while a tile is on its way: "
    labels = [word.removeprefix(start) for word in words(figure) if word.startswith(start)]
    assert labels == ["0", str(PER_TILE), f"{2 * PER_TILE:,}"]
    assert f"0 in {EIGHT}, {PER_TILE} in {NINE}, STAGES=1 and" in figure.caption


# ---- the view of a kernel -----------------------------------------------------------------------


def test_what_is_not_known_has_no_point():
    """Where DRAM bytes were not counted, a line says where it may be; without roofs, nothing."""
    seen, known = facts.of(gl.load("14_wmma", BM=128, BN=128, BK=32)), recorded_ceilings()
    figure = plots.kernel_view(seen, known)
    assert seen.speed.gflops > seen.intensity * known.bytes_per_second / 1e9
    assert any("not counted" in text for text in words(figure))
    bare = words(plots.kernel_view(facts.of(gl.load(THREE)), None))
    assert any("TFLOP/s" in text for text in bare) and not any("counted" in text for text in bare)
