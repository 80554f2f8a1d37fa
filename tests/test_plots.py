"""Figures of tables and maps: they show what the data says, and everything in them can be read."""

import io
import itertools
from dataclasses import replace

import matplotlib
import numpy
import pandas
import pytest
from figures import test_it_can_be_read, the_one, words
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread

import gemmlab
from gemmlab import plots
from gemmlab.cuda.device import GpuState
from gemmlab.ladder import RUNGS
from gemmlab.lessons.ceilings.figures import spread
from gemmlab.measure import ceilings
from gemmlab.measure.timing import COLUMNS, Spread
from gemmlab.plots import style
from gemmlab.records import published, roofs
from gemmlab.records.registry import NoRecord

GPU = "NVIDIA Test"
DAY = "2026-11-21"
SQUARES = [(size,) * 3 for size in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)]
OTHERS = [(4096, 4096, 8192), (8192, 8192, 4096), (1024, 1024, 512), (1001, 777, 513)]
PEAKS = {"01_naive": 500.0, "02_coalescing": 6250.0, "10_register_banks": 51400.0}
SHARES = (1, 12.5, 18.5, 42, 60, 76, 88, 93.5, 94.5)
CLIMB = {rung.name: 511.0 * share for rung, share in zip(RUNGS, SHARES, strict=False)}


# ---- made-up data --------------------------------------------------------------------------------


def measured(peaks=PEAKS, shapes=(*SQUARES, *OTHERS), cublas=51100.0, **fields):
    """A table as benchmark() gives; every kernel has a constant rate after 6 µs of overhead."""
    rows = []
    for (name, peak), (m, n, k) in itertools.product([*peaks.items(), ("cublas", cublas)], shapes):
        work = 2e-6 * m * n * k
        time_ms, cublas_ms = work / peak + 0.006, work / cublas + 0.006
        rows.append((name, "float32", m, n, k, time_ms, work / time_ms, 100 * cublas_ms / time_ms,
                     "pass", GPU, f"{DAY}T10:00:00+00:00"))  # fmt: skip
    return pandas.DataFrame(rows, columns=list(COLUMNS)).assign(**fields)


def climbed():
    """Nine rungs, of which the first was not measured where it would take long."""
    every = measured(CLIMB)
    return every[(every["kernel"] != "01_naive") | (every["m"] <= 4096)]


def points(*rows):
    """Points for the roofline from (kernel, size, gflops, DRAM intensity, model intensity)."""
    return pandas.DataFrame(
        [
            {"kernel": name, "dtype": "float32", "m": size, "n": size, "k": size,
             "gflops": rate, "dram_intensity": dram, "l2_intensity": 2 * model,
             "model_intensity": model, "gpu": GPU, "recorded": DAY}
            for name, size, rate, dram, model in rows
        ]
    )  # fmt: skip


def roof(rate):
    return ceilings.Roof(Spread(rate, rate, rate, rate), 1, GpuState(1755, 690.0, 50))


ALL_ROOFS = roofs.Ceilings(GPU, DAY, *(roof(rate) for rate in (3.95e12, 65.6e12, 600e12)))
WITH_CACHES = replace(ALL_ROOFS, reads={"L2": roof(6e12), "L1": roof(30e12)})
MIXED = pandas.concat([
    points(("09_double_buffering", 4096, 32800.0, 400.0, 30.0)),
    points(("14_wmma", 4096, 300000.0, 400.0, 85.0)).assign(dtype="float16"),
])  # fmt: skip
CROWDED = points(
    ("01_naive", 512, 483, 127, 0.25), ("01_naive", 4096, 498, 16, 0.25),
    ("02_coalescing", 512, 5640, 127, 0.25), ("02_coalescing", 1024, 5514, 218, 0.25),
    ("02_coalescing", 4096, 5741, 31, 0.25),
)  # fmt: skip
EVERY_RUNG = points(
    *((rung.name, 4096, 40000.0 + 500 * at, 300.0, 30.0) for at, rung in enumerate(RUNGS))
)

TRACES = {
    "naive": lambda: gemmlab.load("01_naive").trace(64, 64, 64),
    "coalescing": lambda: gemmlab.load("02_coalescing").trace(64, 64, 64),
    # rows of A and C that do not begin at a sector, and a block that sticks out of C
    "odd": lambda: gemmlab.load("01_naive").trace(77, 101, 53),
    "thin": lambda: gemmlab.load("01_naive").trace(100, 3, 5),  # rows shorter than a sector
    "vectors": lambda: gemmlab.load("06_vectorized_loads").trace(128, 128, 32),
}


@pytest.fixture(scope="module")
def traces():
    return {name: make() for name, make in TRACES.items()}


# ---- every figure --------------------------------------------------------------------------------


FIGURES = {
    **{f"warp map, {name}": lambda t, name=name: plots.warp_map(t[name]) for name in TRACES},
    **{f"block map, {name}": lambda t, name=name: plots.block_map(t[name]) for name in TRACES},
    "block map, edge": lambda t: plots.block_map(t["odd"], block=(1, 12, 0)),
    "gflops": lambda t: plots.gflops(measured()),
    "gflops, one shape": lambda t: plots.gflops(measured(shapes=OTHERS[-1:])),
    "gflops, many": lambda t: plots.gflops(
        measured({f"{at:02d}_kernel_of_that_number": 50000 * 0.9**at for at in range(1, 12)})
    ),
    "climb": lambda t: plots.climb(climbed()),
    "share of cuBLAS": lambda t: plots.cublas_share(measured()),
    "share of cuBLAS, slow": lambda t: plots.cublas_share(measured({"01_naive": 500.0})),
    "shares": lambda t: plots.shares(climbed(), published.shares(), (8192,) * 3),
    "shape shares": lambda t: plots.shape_shares(gemmlab.chosen_shares()),
    "roofline": lambda t: plots.roofline(CROWDED, ALL_ROOFS),
    "roofline, two precisions": lambda t: plots.roofline(MIXED, ALL_ROOFS),
    "roofline, every rung": lambda t: plots.roofline(EVERY_RUNG, ALL_ROOFS),
    "spread, wide": lambda t: spread(
        {"first": [12.5], "cold": [2.1, 2.2, 2.9], "warm": [0.26, 0.27, 0.265] * 7}
    ),
    "spread, narrow": lambda t: spread({"random": [2.0, 2.1], "zeros": [1.7, 1.71]}),
}  # fmt: skip


@pytest.fixture(scope="module", params=FIGURES, ids=str)
def figure(request, traces):
    return FIGURES[request.param](traces)


@pytest.mark.parametrize("name", ["warp map, coalescing", "gflops, many", "roofline"])
def test_as_an_image_it_is_light_opaque_small_and_as_wide_as_a_page(name, traces):
    figure = FIGURES[name](traces)
    pixels = imread(io.BytesIO(figure.png()))
    assert pixels.shape[1] == 900
    assert pixels.shape[2] == 3 or (pixels[..., 3] == 1).all()
    assert pixels[0, 0, :3].min() > 0.95
    figure.canvas.draw()
    drawn = numpy.asarray(figure.canvas.buffer_rgba())[..., :3] / 255
    assert numpy.abs(pixels[..., :3] - drawn).max() < 0.08  # few colours, but the same ones
    data, metadata = figure._repr_png_()  # what a notebook shows: twice the pixels
    assert imread(io.BytesIO(data)).shape[1] == 2 * metadata["width"] == 1800
    assert len(data) < 200_000  # a notebook holds several, and stays under 1 MB


@pytest.mark.parametrize("name", ["warp map, coalescing", "gflops", "spread, wide"])
def test_the_same_data_gives_the_same_bytes_whatever_the_readers_settings(name, traces):
    before = FIGURES[name](traces).png()
    odd = {"font.size": 20, "axes.facecolor": "red", "savefig.facecolor": "none",
           "xtick.labelsize": 3, "ytick.color": "red", "text.color": "red"}  # fmt: skip
    with matplotlib.rc_context(odd):
        after = FIGURES[name](traces).png()
    assert before == after


def test_a_caption_of_ones_own_is_wrapped_and_nothing_in_it_is_mathematics():
    sentence = "Costs $1 and not $2, " + "over and over again, " * 30 + "that is all."
    figure = plots.cublas_share(measured(), caption=sentence)
    test_it_can_be_read(figure)
    assert figure.caption == sentence


# ---- speeds --------------------------------------------------------------------------------------


def test_gflops_of_several_tables_takes_the_fastest_of_cublas_and_says_where_and_when():
    slow = measured({"01_naive": 500.0}, SQUARES, cublas=40000.0)
    fast = measured({"02_coalescing": 6250.0}, SQUARES, cublas=51000.0, recorded="2026-11-23T00:00")
    figure = plots.gflops(pandas.concat([slow, fast]))
    lines = [line for ax in figure.axes for line in ax.lines]
    (line,) = [line for line in lines if line.get_label() == "cublas"]
    assert line.get_ydata().tolist() == fast[fast["kernel"] == "cublas"]["gflops"].tolist()
    assert the_one(figure, "footer").get_text() == f"{GPU}, recorded {DAY} to 2026-11-23"


@pytest.mark.parametrize("draw", [plots.gflops, plots.cublas_share])
@pytest.mark.parametrize(
    ("other", "message"),
    [({"gpu": "Other"}, "one GPU, the table has"), ({"dtype": "float16"}, "one precision")],
)
def test_a_table_of_two_gpus_or_precisions_is_refused(draw, other, message):
    with pytest.raises(ValueError, match=message):
        draw(pandas.concat([measured(), measured(**other)]))


# ---- shares --------------------------------------------------------------------------------------


def test_shares_says_what_is_left_out():
    fewer = published.shares()[lambda rows: rows["rung"] != "04_thread_tile_1d"]
    figure = plots.shares(climbed(), fewer, (8192,) * 3)
    assert "Not measured at this shape: 01_naive." in figure.caption
    assert "No source for 04_thread_tile_1d." in figure.caption
    assert words(figure).count("not measured") == 1


def test_the_sources_are_shares_of_rungs():
    reported = published.shares()
    assert set(reported.columns) == {*published.COLUMNS, "source"}
    assert reported["source"].str.fullmatch(r"[\w/-]+, [\w ]+, \d+×\d+×\d+").all()
    assert reported["url"].str.fullmatch(r"https://[\w./-]+").all()
    assert all(link in published.links() for link in reported["url"])
    assert reported["pct_cublas"].between(0, 100, inclusive="right").all()
    assert not reported.duplicated(["rung", "source"]).any()
    assert set(reported["rung"]) <= {rung.name for rung in RUNGS}


# ---- roofline ------------------------------------------------------------------------------------


def test_roofline_names_its_roofs_and_says_what_is_reached():
    figure = plots.roofline(MIXED, WITH_CACHES)
    assert {
        "FP32 multiply-adds: 65.6 TFLOP/s", "tensor cores, mma.sync of FP16: 600 TFLOP/s",
        "DRAM, copy: 3.95 TB/s", "L2, read: 6.00 TB/s", "L1, read: 30.0 TB/s",
    } <= set(words(figure))  # fmt: skip
    caption = " ".join(figure.caption.split())
    assert "09_double_buffering reaches 50.0 % and 14_wmma reaches 50.0 %" in caption
    assert "L2 can deliver, 09_double_buffering takes 9.1 % and 14_wmma takes 29.4 %" in caption
    assert "L2" not in plots.roofline(MIXED, ALL_ROOFS).caption


@pytest.mark.parametrize(
    ("shown", "ceilings", "error", "message"),
    [
        (CROWDED.assign(gpu="Another"), ALL_ROOFS, ValueError, "those of NVIDIA Test, the points"),
        (MIXED, replace(ALL_ROOFS, tensor=None), NoRecord, "record 00_tensor_ceiling"),
    ],
)
def test_roofline_refuses(shown, ceilings, error, message):
    with pytest.raises(error, match=message):
        plots.roofline(shown, ceilings)


# ---- style ---------------------------------------------------------------------------------------


def test_42_kernels_differ_in_colour_or_marker_and_in_colour_or_hatch():
    looks = [style.kernel_style(f"{number:02d}_name") for number in range(42)]
    for shape in ("marker", "hatch"):
        assert len({(look["color"], look[shape]) for look in looks}) == 42
    of_matrices = set(style.ARRAYS.values())
    assert not {look["color"] for look in looks} & of_matrices
    assert not set(style.TILE_COLOURS) & of_matrices


@given(
    desired=st.lists(st.floats(-10, 10), min_size=1, max_size=12),
    gap=st.floats(0.01, 0.5),
)
def test_labels_are_spread_out_in_order_and_inside(desired, gap):
    placed = style.spread_out(desired, gap, -10, 10)
    order = sorted(range(len(desired)), key=lambda at: desired[at])
    for before, after in itertools.pairwise(order):
        assert placed[after] - placed[before] >= gap - 1e-6
    assert min(placed) >= -10 - 1e-6
    assert max(placed) <= 10 + 1e-6


@given(desired=st.lists(st.integers(-10, 10), min_size=1, max_size=12, unique=True))
def test_labels_that_have_room_stay_where_they_are(desired):
    assert style.spread_out(desired, 0.9, -10, 10) == pytest.approx(desired)


@given(words=st.text(st.sampled_from("ab c"), max_size=200))
def test_wrapping_keeps_every_word_and_fits(words):
    lines = style.wrap(words, 1.0, 9)
    assert " ".join(lines).split() == words.split()
    assert all(style.text_width(line, 9) <= 1.0 or " " not in line for line in lines)
