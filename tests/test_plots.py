"""Figures: they show what the data says, and everything in them can be read."""

import io
import itertools
import math
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import matplotlib
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
    texts,
    words,
)
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread
from matplotlib.text import Text

import gemmlab
from gemmlab import plots
from gemmlab.cuda.device import GpuState
from gemmlab.kernel.trace import Access, TraceError
from gemmlab.ladder import RUNGS
from gemmlab.lessons.ceilings.figures import spread
from gemmlab.lessons.coalescing.figures import traffic
from gemmlab.measure import ceilings
from gemmlab.measure.timing import COLUMNS, Spread
from gemmlab.plots import style
from gemmlab.plots.maps import lanes_in_words
from gemmlab.records import roofs as r_roofs
from gemmlab.records.registry import NoRecord

GPU = "NVIDIA Test"
DAY = "2026-11-21"
SQUARES = [(size,) * 3 for size in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)]
OTHERS = [(4096, 4096, 8192), (8192, 8192, 4096), (1024, 1024, 512), (1001, 777, 513)]
PEAKS = {"01_naive": 500.0, "02_coalescing": 6250.0, "10_register_banks": 51400.0}
CEILINGS = SimpleNamespace(
    bytes_per_second=3.95e12, flop_per_second=65.6e12, reads={}, gpu=GPU, recorded=DAY
)


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


ALL_ROOFS = r_roofs.Ceilings(GPU, DAY, *(roof(rate) for rate in (3.95e12, 65.6e12, 600e12)))
MIXED = pandas.concat([
    points(("09_double_buffering", 4096, 32800.0, 400.0, 30.0)),
    points(("14_wmma", 4096, 300000.0, 400.0, 85.0)).assign(dtype="float16"),
])  # fmt: skip
CROWDED = points(
    ("01_naive", 512, 483, 127, 0.25), ("01_naive", 4096, 498, 16, 0.25),
    ("02_coalescing", 512, 5640, 127, 0.25), ("02_coalescing", 1024, 5514, 218, 0.25),
    ("02_coalescing", 4096, 5741, 31, 0.25),
)  # fmt: skip


def access(array, shape, elements, *, op="load", words=1, lanes=None):
    """An access from the first element of each lane; `words` neighbours belong to each."""
    first = numpy.asarray([row * shape[1] + column for row, column in elements])
    index = first[:, None] + numpy.arange(words)
    return Access(
        array=array,
        op=op,
        line=7,
        source="",
        shape=shape,
        lanes=numpy.arange(len(first)) if lanes is None else numpy.asarray(lanes),
        elements=numpy.stack([index // shape[1], index % shape[1]], axis=-1),
        addresses=4 * first,
        width=4 * words,
        sectors=len(set((index // 8).ravel().tolist())),
    )


class FakeTrace:
    """A trace of given accesses: {(array, op): [first time, second time, ...]}."""

    kernel_name, m, n, k = "06_vectorized_loads", 256, 256, 256
    grid, block = (1, 1, 1), (32, 1, 1)

    def __init__(self, accesses):
        self.accesses = accesses

    def warp_access(self, array, *, op="load", block=(0, 0, 0), warp=0, occurrence=0):
        found = self.accesses.get((array, op), [])
        if warp != 0 or occurrence >= len(found):
            raise TraceError("no such access")
        return found[occurrence]


VECTORS = FakeTrace({
    ("A", "load"): [access("A", (256, 256), [(i // 2, 4 * (i % 2)) for i in range(32)], words=4)],
    ("B", "load"): [access("B", (256, 256), [(0, 4 * i) for i in range(32)], words=4)],
    ("C", "store"): [
        access("C", (256, 256), [(8 * (i // 8), 4 * (i % 8) + step) for i in range(32)],
               op="store", words=1)
        for step in range(4)
    ],
})  # fmt: skip


@pytest.fixture(scope="module")
def naive():
    return gemmlab.load("01_naive").trace(64, 64, 64)


@pytest.fixture(scope="module")
def coalescing():
    return gemmlab.load("02_coalescing").trace(64, 64, 64)


@pytest.fixture(scope="module")
def odd():
    """Rows of A and C that do not begin at a sector, and a block that sticks out of C."""
    return gemmlab.load("01_naive").trace(77, 101, 53)


@pytest.fixture(scope="module")
def thin():
    """Rows shorter than a sector."""
    return gemmlab.load("01_naive").trace(100, 3, 5)


# ---- every figure --------------------------------------------------------------------------------


def all_accesses(trace):
    return (
        trace.warp_access("A"), trace.warp_access("B"), trace.warp_access("C", op="store")
    )  # fmt: skip


FIGURES = {
    "warp map, column": lambda t: plots.warp_map(t("naive")),
    "warp map, row": lambda t: plots.warp_map(t("coalescing")),
    "warp map, odd": lambda t: plots.warp_map(t("odd"), block=(1, 2, 0), occurrence=5),
    "warp map, thin": lambda t: plots.warp_map(t("thin")),
    "warp map, vectors": lambda t: plots.warp_map(VECTORS),
    "block map, column": lambda t: plots.block_map(t("naive")),
    "block map, row": lambda t: plots.block_map(t("coalescing")),
    "block map, edge": lambda t: plots.block_map(t("odd"), block=(1, 12, 0)),
    "block map, several": lambda t: plots.block_map(VECTORS),
    "address map, steep": lambda t: plots.address_map(*all_accesses(t("naive"))),
    "address map, flat": lambda t: plots.address_map(*all_accesses(t("coalescing"))),
    "address map, one": lambda t: plots.address_map(t("odd").warp_access("A", occurrence=3)),
    "traffic": lambda t: traffic(t("naive"), t("coalescing")),
    "traffic, large": lambda t: traffic(t("naive"), t("odd"), quantity="bytes_asked"),
    "traffic, predicted": lambda t: traffic(
        t("naive"), predicted={"A load": 1, "C store": 32}
    ),
    "gflops": lambda t: plots.gflops(measured()),
    "gflops, squares": lambda t: plots.gflops(measured(shapes=SQUARES)),
    "gflops, one shape": lambda t: plots.gflops(measured(shapes=OTHERS[-1:])),
    "gflops, many": lambda t: plots.gflops(
        measured({f"{at:02d}_kernel_of_that_number": 50000 * 0.9**at for at in range(1, 12)})
    ),
    "share of cuBLAS": lambda t: plots.cublas_share(measured()),
    "share of cuBLAS, slow": lambda t: plots.cublas_share(measured({"01_naive": 500.0})),
    "roofline": lambda t: plots.roofline(CROWDED, CEILINGS),
    "roofline, two precisions": lambda t: plots.roofline(MIXED, ALL_ROOFS),
    "roofline, one point": lambda t: plots.roofline(CROWDED[:1], CEILINGS),
    "spread, wide": lambda t: spread(
        {"first": [12.5], "cold": [2.1, 2.2, 2.9], "warm": [0.26, 0.27, 0.265] * 7}
    ),
    "spread, narrow": lambda t: spread({"random": [2.0, 2.1], "zeros": [1.7, 1.71]}),
}  # fmt: skip


@pytest.fixture(scope="module")
def traces(request):
    return request.getfixturevalue


@pytest.fixture(scope="module", params=FIGURES, ids=str)
def figure(request, traces):
    return FIGURES[request.param](traces)


@pytest.mark.parametrize(
    "name",
    ["warp map, row", "block map, column", "address map, steep", "traffic", "gflops, many",
     "roofline", "spread, wide"],
)  # fmt: skip
def test_as_an_image_it_is_light_opaque_small_and_as_wide_as_a_page(name, traces):
    figure = FIGURES[name](traces)
    pixels = imread(io.BytesIO(plots.png(figure)))
    assert pixels.shape[1] == 900
    assert pixels.shape[2] == 3 or (pixels[..., 3] == 1).all()
    assert pixels[0, 0, :3].min() > 0.95
    figure.canvas.draw()
    drawn = numpy.asarray(figure.canvas.buffer_rgba())[..., :3] / 255
    assert numpy.abs(pixels[..., :3] - drawn).max() < 0.08  # few colours, but the same ones
    data, metadata = figure._repr_png_()  # what a notebook shows: twice the pixels
    assert imread(io.BytesIO(data)).shape[1] == 2 * metadata["width"] == 1800
    assert len(data) < 200_000  # a notebook holds several, and stays under 1 MB


@pytest.mark.parametrize("name", ["warp map, row", "gflops", "spread, wide"])
def test_the_same_data_gives_the_same_bytes_whatever_the_readers_settings(name, traces):
    before = FIGURES[name](traces).png()
    odd = {"font.size": 20, "axes.facecolor": "red", "savefig.facecolor": "none",
           "xtick.labelsize": 3, "ytick.color": "red", "text.color": "red"}  # fmt: skip
    with matplotlib.rc_context(odd):
        after = FIGURES[name](traces).png()
    assert before == after


def test_a_caption_of_ones_own_is_wrapped_and_nothing_in_it_is_mathematics():
    sentence = "Costs $1 and not $2, " + "over and over again, " * 30 + "that is all."
    figure = spread({"a": [1.0, 2.0]}, caption=sentence)
    test_all_of_it_can_be_read(figure)
    test_the_caption_is_a_sentence_below_everything(figure)
    assert figure.caption == sentence


@pytest.mark.parametrize("caption", ["", "  "])
def test_an_empty_caption_is_refused(caption):
    with pytest.raises(ValueError, match="caption is empty"):
        spread({"a": [1.0, 2.0]}, caption=caption)


def test_importing_gemmlab_does_not_import_matplotlib():
    code = "import sys, gemmlab; assert 'matplotlib' not in sys.modules; gemmlab.plots.gflops"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- warp map ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("naive", {}),
        ("naive", {"block": (0, 3, 0), "warp": 5, "occurrence": 20}),
        ("coalescing", {}),
        ("coalescing", {"block": (0, 3, 0), "warp": 3, "occurrence": 63}),
        ("odd", {"occurrence": 7}),
        ("thin", {"warp": 1}),
    ],
)
def test_warp_map_draws_the_cells_and_sectors_of_the_trace(name, where, traces):
    trace = traces(name)
    figure = plots.warp_map(trace, **where)
    stored = {key: value for key, value in where.items() if key != "occurrence"}
    for found in (
        trace.warp_access("A", **where),
        trace.warp_access("B", **where),
        trace.warp_access("C", op="store", **stored),
    ):
        ax = axes(figure, f"map {found.array}")
        cells = {tuple(element) for element in found.elements.reshape(-1, 2).tolist()}
        assert {tuple(map(int, cell.get_gid().split()[1:])) for cell in by_gid(ax, "cell")} == cells
        assert len({sector.get_gid() for sector in by_gid(ax, "sector")}) == found.sectors
        (notes,) = by_gid(figure, f"notes {found.array}")
        assert f"{found.sectors} sector" in notes.get_text()
        assert f"{32 * found.sectors:,} moved" in notes.get_text()


def test_warp_map_places_cells_at_their_row_and_column(odd):
    figure = plots.warp_map(odd, block=(0, 2, 0), occurrence=5)
    found = odd.warp_access("C", op="store", block=(0, 2, 0))
    ax = axes(figure, "map C")
    column = int(found.elements[0, 0, 1])
    labels = dict(zip((t.get_text() for t in ax.get_xticklabels()), ax.get_xticks(), strict=True))
    first_shown = int(next(iter(labels)))
    for cell in by_gid(ax, "cell"):
        assert cell.get_x() == column - first_shown
        assert labels[str(first_shown)] == 0.5


def test_warp_map_numbers_the_lanes_of_a_column(naive):
    figure = plots.warp_map(naive)
    written = {text.get_text() for text in axes(figure, "map A").texts}
    assert {str(lane) for lane in range(32)} <= written
    assert "all 32 lanes" in {text.get_text() for text in axes(figure, "map B").texts}
    assert "32 sectors" in figure.caption


def test_warp_map_names_the_lanes_of_a_row_by_sector(coalescing):
    figure = plots.warp_map(coalescing)
    assert [text.get_text() for text in axes(figure, "map A").texts] == ["all 32 lanes"]
    written = {text.get_text().replace("\n", " ") for text in axes(figure, "map B").texts}
    assert written == {"lanes 0–7", "lanes 8–15", "lanes 16–23", "lanes 24–31"}


def test_warp_map_says_what_it_leaves_out():
    figure = plots.warp_map(VECTORS)
    (notes,) = by_gid(figure, "notes B")
    assert "cropped to rows 0–15, columns 0–31" not in notes.get_text()  # C needs 25 rows
    assert "cropped to rows 0–24, columns 0–31" in notes.get_text()
    assert "32 of 128 elements asked for are shown" in notes.get_text()
    (whole,) = by_gid(figure, "notes A")
    assert "elements asked for" not in whole.get_text()
    assert "128 bytes asked" not in whole.get_text()
    assert "512 bytes asked, 512 moved" in whole.get_text()


def test_warp_map_does_not_speak_of_cropping_where_all_is_shown(thin):
    (notes,) = by_gid(plots.warp_map(thin), "notes B")
    assert "cropped" not in notes.get_text()


@pytest.mark.parametrize(
    ("lanes", "expected"),
    [
        (range(32), "all 32 lanes"),
        ([5], "lane 5"),
        ([5, 5], "lane 5"),
        (range(8), "lanes 0–7"),
        ([1, 9], "lanes 1, 9"),
        ([0, 4, 8, 12], "lanes 0, 4, …, 12"),
        ([0, 1, 5, 6], "4 lanes"),
    ],
)
def test_lanes_in_words(lanes, expected):
    assert lanes_in_words(lanes) == expected


def test_warp_map_passes_on_that_there_is_no_such_access(naive):
    with pytest.raises(TraceError, match="64 loads of A"):
        plots.warp_map(naive, occurrence=64)


# ---- block map -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["naive", "coalescing"])
def test_block_map_gives_every_warp_its_32_elements(name, traces):
    trace = traces(name)
    ax = axes(plots.block_map(trace), "map C")
    warps = math.prod(trace.block) // 32
    for warp in range(warps):
        parts = [part for part in by_gid(ax, "warp") if part.get_gid() == f"warp {warp}"]
        assert sum(part.get_width() * part.get_height() for part in parts) == 32
    assert sum(p.get_width() * p.get_height() for p in by_gid(ax, "warp")) == 32 * warps


def test_block_map_leaves_out_threads_beyond_the_edge_of_c(odd):
    block = (1, 12, 0)
    figure = plots.block_map(odd, block=block)
    rows = 77 - odd.block[0]
    columns = 101 - 12 * odd.block[1]
    area = sum(p.get_width() * p.get_height() for p in by_gid(axes(figure, "map C"), "warp"))
    assert area == rows * columns
    assert f"rows {odd.block[0]} to 76, columns {12 * odd.block[1]} to 100 of C" in figure.caption


def test_block_map_says_in_numbers_what_threads_store(naive):
    x = naive.block[0]
    written = words(plots.block_map(naive))
    last = math.prod(naive.block) - 1
    for expected in ("C[0, 0]", "C[1, 0]", "C[31, 0]", "(31, 0)", str(last)):
        assert expected in written
    assert f"C[{last % x}, {last // x}]" in written


def test_block_map_numbers_the_lanes_of_warp_0_or_their_ends(naive, coalescing):
    assert {"0", "31", "warp 0"} <= {t.get_text() for t in plots.block_map(naive).axes[0].texts}
    row = {text.get_text() for text in plots.block_map(coalescing).axes[0].texts}
    assert {"lane 0", "lane 31", "warp 0"} <= row
    small = gemmlab.load("02_coalescing", BLOCK_X=16, BLOCK_Y=16).trace(64, 64, 64)
    all_lanes = {text.get_text() for text in plots.block_map(small).axes[0].texts}
    assert {str(lane) for lane in range(32)} <= all_lanes


def test_block_map_counts_all_elements_of_a_thread():
    figure = plots.block_map(VECTORS)
    area = sum(p.get_width() * p.get_height() for p in by_gid(axes(figure, "map C"), "warp"))
    assert area == 128
    assert "C[0, 0] and 3 more" in words(figure)


def test_block_map_refuses_a_block_that_stores_nothing():
    with pytest.raises(ValueError, match="stores nothing"):
        plots.block_map(FakeTrace({}))


# ---- address map ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["naive", "coalescing", "odd"])
def test_address_map_draws_every_lane_and_sector(name, traces):
    trace = traces(name)
    later = {"block": (0, 1, 0), "warp": 1}
    found = (
        trace.warp_access("A", occurrence=3, **later),
        trace.warp_access("B", occurrence=3, **later),
        trace.warp_access("C", op="store", **later),
    )
    figure = plots.address_map(*found)
    heights = {tuple(ax.get_ylim()) for ax in figure.axes}
    assert len(heights) == 1  # one scale: a flat line is flat beside a steep one
    for one in found:
        ax = axes(figure, f"addresses {one.array}")
        (line,) = ax.lines
        start = one.addresses.min() // 32 * 32
        assert line.get_xdata().tolist() == one.lanes.tolist()
        assert line.get_ydata().tolist() == (one.addresses - start).tolist()
        assert len(by_gid(ax, "sector")) == one.sectors
        in_a_band = [
            any(band.get_y() <= y < band.get_y() + 32 for band in by_gid(ax, "sector"))
            for y in line.get_ydata()
        ]
        assert all(in_a_band)


def test_address_map_says_how_addresses_run(naive, coalescing):
    assert "load of A climbs 256 bytes from lane to lane" in plots.address_map(
        *all_accesses(naive)
    ).caption  # fmt: skip
    caption = plots.address_map(*all_accesses(coalescing)).caption
    assert "load of A stays at one address (1 sector)" in caption
    assert "load of B climbs 4 bytes from lane to lane (4 sectors)" in caption
    backwards = access("A", (64, 64), [(0, 31 - lane) for lane in range(32)])
    assert "falls 4 bytes" in plots.address_map(backwards).caption
    random = access("A", (64, 64), [(lane * lane % 7, lane) for lane in range(32)])
    assert "jumps between lanes" in plots.address_map(random).caption


# ---- traffic -------------------------------------------------------------------------------------


def test_traffic_bars_are_as_long_as_the_counts(naive, coalescing):
    for quantity in ("sectors_per_request", "sectors", "requests", "bytes_asked"):
        figure = traffic(naive, coalescing, quantity=quantity)
        drawn = sorted(bar.get_width() for bar in by_gid(axes(figure, "traffic"), "bar"))
        counted = pandas.concat([naive.lines, coalescing.lines])[quantity]
        assert drawn == sorted(counted.astype(float))


def test_traffic_shows_the_prediction_beside_the_count(naive):
    figure = traffic(naive, predicted={"A load": 1, "B load": 1, "C store": 32})
    marks = {
        mark.get_gid(): float(mark.get_xdata()[0])
        for mark in by_gid(axes(figure, "traffic"), "predicted")
    }
    assert marks == {"predicted A load": 1, "predicted B load": 1, "predicted C store": 32}
    assert "off for A load (1 predicted, 32 counted)" in figure.caption
    assert any("32 counted, 1 predicted" in text for text in words(figure))


def test_traffic_says_when_a_prediction_is_right(naive):
    caption = traffic(naive, predicted={"A load": 32.0}).caption
    assert caption == "Sectors per request of 01_naive: the prediction is right for A load."


def test_traffic_leaves_shared_memory_out(naive):
    shared = naive.lines.assign(space="shared", array="tile")
    both = pandas.concat([naive.lines, shared], ignore_index=True)
    trace = SimpleNamespace(
        kernel_name="03_shared_memory", m=64, n=64, k=64, lines=both, warp_access=lambda: None
    )
    bars = by_gid(axes(traffic(trace), "traffic"), "bar")
    assert len(bars) == len(naive.lines)
    trace.lines = shared
    with pytest.raises(ValueError, match="nothing was loaded from global memory"):
        traffic(trace)


def test_traffic_tells_traces_of_one_kernel_apart(naive, odd):
    written = words(traffic(naive, odd))
    assert "01_naive at M=N=K=64" in written
    assert "01_naive at M=77, N=101, K=53" in written
    small = gemmlab.load("01_naive", BLOCK_X=32, BLOCK_Y=8).trace(64, 64, 64)
    figure = traffic(naive, small)
    assert "01_naive at M=N=K=64, BLOCK_X=32, BLOCK_Y=8" in words(figure)
    faces = {bar.get_facecolor() for bar in by_gid(figure, "bar")}
    assert len(faces) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantity": "seconds"}, "quantity is 'seconds'; it must be one of sectors_per_request"),
        ({"predicted": {"D load": 1}}, "'D load', not counted; counted are A load, B load, C st"),
        ({"predicted": {"A load": -1}}, "predicted says -1 for 'A load'"),
        ({"predicted": {"A load": math.nan}}, "predicted says nan for 'A load'"),
        ({"predicted": {"A load": "many"}}, "predicted says 'many' for 'A load'"),
    ],
)
def test_traffic_refuses(arguments, message, naive):
    with pytest.raises(ValueError, match=message):
        traffic(naive, **arguments)


def test_traffic_refuses_one_prediction_for_several_traces_or_lines(naive, coalescing):
    with pytest.raises(ValueError, match="predicted goes with one trace, not with 2"):
        traffic(naive, coalescing, predicted={"A load": 1})
    twice = pandas.concat([naive.lines, naive.lines], ignore_index=True)
    trace = SimpleNamespace(kernel_name="x", m=1, n=1, k=1, lines=twice, warp_access=lambda: None)
    with pytest.raises(ValueError, match="'A load', which stands in 2 lines"):
        traffic(trace, predicted={"A load": 1})
    with pytest.raises(ValueError, match="one trace or more"):
        traffic()


# ---- GFLOP/s -------------------------------------------------------------------------------------


def test_gflops_draws_a_line_for_every_kernel_and_labels_its_end():
    table = measured(shapes=SQUARES)
    figure = plots.gflops(table)
    ax = axes(figure, "square products")
    assert {line.get_label() for line in ax.lines} == {*PEAKS, "cublas"}
    for line in ax.lines:
        own = table[table["kernel"] == line.get_label()]
        assert line.get_xdata().tolist() == own["m"].tolist()
        assert line.get_ydata().tolist() == own["gflops"].tolist()
    assert {text.get_text() for text in ax.texts} == {*PEAKS, "cuBLAS"}
    ends = {text.get_text(): text.xy for text in ax.texts}
    assert ends["01_naive"] == (16384, table["gflops"][8])


def test_gflops_tells_kernels_apart_without_colour():
    ax = axes(plots.gflops(measured()), "square products")
    looks = {(line.get_marker(), line.get_linestyle()) for line in ax.lines}
    assert len(looks) == len(ax.lines)


def test_gflops_leads_from_a_line_to_its_name_and_not_into_it(traces):
    ax = axes(FIGURES["gflops, many"](traces), "square products")
    assert len(ax.texts) == 12
    for name in ax.texts:
        leader = name.arrow_patch.get_window_extent()
        assert leader.x1 <= Text.get_window_extent(name).x0 + 1


def test_gflops_draws_a_bar_for_every_other_shape():
    table = measured(shapes=OTHERS)
    table = table[(table["kernel"] != "01_naive") | (table["m"] != 8192)]
    figure = plots.gflops(table)
    assert len(figure.axes) == len(OTHERS)
    for shape in OTHERS:
        ax = axes(figure, f"shape {' × '.join(map(str, shape))}")
        m, n, k = shape
        own = table[(table["m"] == m) & (table["n"] == n) & (table["k"] == k)]
        assert {bar.get_gid()[4:]: bar.get_width() for bar in by_gid(ax, "bar")} == dict(
            zip(own["kernel"], own["gflops"], strict=True)
        )
    assert words(figure).count("not measured") == 1


def test_gflops_says_where_and_when():
    table = measured(shapes=SQUARES)
    footer = by_gid(plots.gflops(table), "footer")[0].get_text()
    assert footer == "NVIDIA Test, recorded 2026-11-21"
    later = measured({"11_fused_epilogue": 50000.0}, SQUARES, recorded="2026-11-23T00:00:00+00:00")
    footer = by_gid(plots.gflops(pandas.concat([table, later])), "footer")[0].get_text()
    assert footer == "NVIDIA Test, recorded 2026-11-21 to 2026-11-23"


def test_gflops_takes_the_fastest_of_cublas_where_tables_are_put_together():
    slow = measured({"01_naive": 500.0}, SQUARES, cublas=40000.0)
    fast = measured({"02_coalescing": 6250.0}, SQUARES, cublas=51000.0)
    ax = axes(plots.gflops(pandas.concat([slow, fast])), "square products")
    (line,) = [line for line in ax.lines if line.get_label() == "cublas"]
    expected = fast[fast["kernel"] == "cublas"]["gflops"].tolist()
    assert line.get_ydata().tolist() == expected


def test_gflops_captions_the_largest_shape_that_all_kernels_have():
    table = measured({"01_naive": 500.0}, SQUARES)
    table = table[(table["kernel"] == "cublas") | (table["m"] <= 4096)]
    row = table[(table["kernel"] == "01_naive") & (table["m"] == 4096)].iloc[0]
    caption = plots.gflops(table).caption
    assert f"At M=N=K=4096, 01_naive reaches {row['gflops']:.0f} GFLOP/s" in caption
    assert f"{row['pct_cublas']:.2f} % of cuBLAS" in caption


TABLE_FIGURES = [plots.gflops, plots.cublas_share]


@pytest.mark.parametrize("draw", TABLE_FIGURES)
def test_a_table_figure_refuses_what_is_no_table(draw):
    with pytest.raises(TypeError, match=f"{draw.__name__} takes a pandas table, not list"):
        draw([])
    with pytest.raises(ValueError, match="without rows"):
        draw(measured()[:0])
    with pytest.raises(ValueError, match="missing: gflops, gpu"):
        draw(measured().drop(columns=["gflops", "gpu"]))


@pytest.mark.parametrize("draw", TABLE_FIGURES)
@pytest.mark.parametrize("bad", [math.nan, 0.0, -1.0, math.inf, "fast", None])
def test_a_table_figure_refuses_a_rate_that_is_none(draw, bad):
    table = measured().astype({"gflops": object})
    table.at[3, "gflops"] = bad
    with pytest.raises(ValueError, match=r"gflops is .* in row 3 \(01_naive\)"):
        draw(table)


@pytest.mark.parametrize("draw", TABLE_FIGURES)
def test_a_table_figure_never_mixes_gpus_or_precisions(draw):
    other = pandas.concat([measured(), measured(gpu="NVIDIA Other")])
    with pytest.raises(ValueError, match="one GPU, the table has NVIDIA Other, NVIDIA Test"):
        draw(other)
    other = pandas.concat([measured(), measured(dtype="float16")])
    with pytest.raises(ValueError, match="one precision, the table has float16, float32"):
        draw(other)


def test_small_shares_have_ticks_that_can_be_told_apart():
    few = measured({"01_naive": 500.0})
    ax = axes(plots.cublas_share(few), "square products")
    labels = [ax.yaxis.get_major_formatter()(value, None) for value in ax.get_yticks()]
    assert len(set(labels)) == len(labels)


# ---- roofline ------------------------------------------------------------------------------------


def test_roofline_places_every_point_by_counted_and_by_model_bytes():
    ax = axes(plots.roofline(CROWDED, CEILINGS), "roofline")
    for gid, column in (("dram", "dram_intensity"), ("model", "model_intensity")):
        drawn = {(mark.get_xdata()[0], mark.get_ydata()[0]) for mark in by_gid(ax, gid)}
        assert drawn == set(zip(CROWDED[column], CROWDED["gflops"], strict=True))
    filled, hollow = by_gid(ax, "dram 01")[0], by_gid(ax, "model 01")[0]
    assert filled.get_markerfacecolor() == filled.get_color() != hollow.get_markerfacecolor()


def test_roofline_draws_the_measured_roofs_with_their_values():
    figure = plots.roofline(CROWDED, CEILINGS)
    ax = axes(figure, "roofline")
    x, y = next(line.get_data() for line in ax.lines if len(line.get_xdata()) == 3)
    assert x[1] == pytest.approx(65.6e12 / 3.95e12)
    assert y[1] == y[2] == pytest.approx(65600)
    assert y[0] / x[0] == pytest.approx(3950)
    assert "copy: 3.95 TB/s" in words(figure)
    assert "FP32 multiply-adds: 65.6 TFLOP/s" in words(figure)


def test_roofline_has_a_roof_for_each_cache_that_is_known_and_its_marker():
    reads = {"L2": roof(6e12), "L1": roof(30e12)}
    figure = plots.roofline(MIXED, replace(ALL_ROOFS, reads=reads))
    ax = axes(figure, "roofline")
    drawn = {(mark.get_xdata()[0], mark.get_ydata()[0]) for mark in by_gid(ax, "l2")}
    assert drawn == set(zip(MIXED["l2_intensity"], MIXED["gflops"], strict=True))
    thin = [line for line in ax.lines if line.get_color() == style.FAINT]
    rates = [line.get_ydata() / line.get_xdata() for line in thin]
    assert rates == [pytest.approx([6e3] * 2), pytest.approx([30e3] * 2)], "GB/s"
    assert {line.get_ydata()[1] for line in thin} == {600e3}, "up to the highest roof"
    said = words(figure)
    for part in ("DRAM, copy: 3.95 TB/s", "L2, read: 6.00 TB/s", "L1, read: 30.0 TB/s"):
        assert part in said
    caption = " ".join(figure.caption.split())
    assert (
        "Of what L2 can deliver, 09_double_buffering takes 9.1 % and 14_wmma takes 29.4 %"
        in caption
    )
    without = plots.roofline(MIXED, ALL_ROOFS)
    assert not by_gid(axes(without, "roofline"), "l2") and "L2" not in without.caption


def test_roofline_of_half_precision_has_both_roofs_and_measures_by_the_own_one():
    figure = plots.roofline(MIXED, ALL_ROOFS)
    assert "FP32 multiply-adds: 65.6 TFLOP/s" in words(figure)
    assert "tensor cores, mma.sync of FP16: 600 TFLOP/s" in words(figure)
    caption = " ".join(figure.caption.split())
    assert "09_double_buffering reaches 50.0 % and 14_wmma reaches 50.0 %" in caption
    flat = [line.get_ydata()[-1] for line in axes(figure, "roofline").lines
            if len(line.get_xdata()) > 1 and line.get_color() == style.INK]  # fmt: skip
    assert flat == pytest.approx([65600, 600000])
    with pytest.raises(NoRecord, match="record 00_tensor_ceiling"):
        plots.roofline(MIXED, replace(ALL_ROOFS, tensor=None))


def test_roofline_has_the_same_axes_whatever_it_shows():
    """So that two notebooks can be compared; only what lies beyond them widens them."""
    one, other = (
        axes(plots.roofline(given, ALL_ROOFS), "roofline") for given in (CROWDED[:1], MIXED)
    )
    limits = one.get_xlim(), one.get_ylim()
    assert (other.get_xlim(), other.get_ylim()) == limits
    beyond = points(("01_naive", 4096, 20.0, 40000.0, 0.02))
    wide = axes(plots.roofline(beyond, CEILINGS), "roofline")
    assert wide.get_xlim()[0] < 0.02 and wide.get_xlim()[1] > 40000
    assert wide.get_ylim()[0] < 20 and wide.get_ylim()[1] == limits[1][1]


def test_roofline_of_all_rungs_has_no_label_on_another():
    names = [rung.name for rung in RUNGS]
    crowd = points(*((name, 4096, 40000.0 + 500 * i, 300.0, 30.0) for i, name in enumerate(names)))
    figure = plots.roofline(crowd, CEILINGS)
    figure.draw_without_rendering()  # labels find their places
    labels = by_gid(axes(figure, "roofline"), "label")
    places = [Text.get_window_extent(label) for label in labels]  # without the line to its marker
    assert len(places) == len(names)
    for one, other in itertools.combinations(places, 2):
        assert not one.overlaps(other)


def test_roofline_captions_the_share_of_what_the_roofs_allow():
    one = points(("01_naive", 4096, 395.0, 1.0, 0.25))
    assert "at M=N=K=4096, 01_naive reaches 10.0 %" in plots.roofline(one, CEILINGS).caption
    assert "hollow marker above" not in plots.roofline(one, CEILINGS).caption
    above = points(("02_coalescing", 4096, 6560.0, 300.0, 0.25))
    caption = plots.roofline(above, CEILINGS).caption
    assert "02_coalescing reaches 10.0 %" in caption
    assert "hollow marker above" in caption


def test_roofline_names_the_shape_only_where_a_kernel_has_several():
    assert "01_naive, M=N=K=512" in words(plots.roofline(CROWDED, CEILINGS))
    assert "01_naive" in words(plots.roofline(CROWDED[:1], CEILINGS))


@pytest.mark.parametrize(
    ("given", "roofs", "error", "message"),
    [
        (None, CEILINGS, TypeError, "takes a pandas table, not NoneType"),
        (CROWDED[:0], CEILINGS, ValueError, "without rows"),
        (CROWDED.drop(columns="gflops"), CEILINGS, ValueError, "missing: gflops"),
        (CROWDED.assign(dram_intensity=math.inf), CEILINGS, ValueError, "dram_intensity is inf"),
        (CROWDED, None, TypeError, "bytes_per_second is None"),
        (
            CROWDED,
            SimpleNamespace(bytes_per_second=1.0, flop_per_second=math.nan, reads={}, gpu=GPU),
            TypeError,
            "flop_per_second is nan",
        ),
        (CROWDED.assign(gpu="Another"), CEILINGS, ValueError, "those of NVIDIA Test, the points"),
    ],
)
def test_roofline_refuses(given, roofs, error, message):
    with pytest.raises(error, match=message):
        plots.roofline(given, roofs)


# ---- spread --------------------------------------------------------------------------------------


def test_spread_draws_every_time_and_every_median():
    samples = {"cold": [2.0, 3.0, 10.0], "warm": [0.2, 0.21, 0.22, 0.2]}
    figure = spread(samples)
    for label, times in samples.items():
        (marks,) = by_gid(figure, f"times {label}")
        assert marks.get_xdata().tolist() == times
    medians = [line.get_segments()[0][0][0] for line in axes(figure, "spread").collections]
    assert medians == [3.0, pytest.approx(0.205)]
    assert axes(figure, "spread").get_xscale() == "log"
    assert "cold 3.00 ms, from 2.00 to 10.0" in figure.caption


def test_spread_starts_at_zero_where_times_are_alike():
    ax = axes(spread({"a": [1.0, 1.1], "b": [1.2]}), "spread")
    assert ax.get_xscale() == "linear"
    assert ax.get_xlim()[0] == 0


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        ({}, ValueError, "no series of times"),
        ([1.0], TypeError, "mapping of label to times, not list"),
        ({"a": []}, ValueError, "'a' has no times"),
        ({"a": [1.0, 0.0]}, ValueError, "'a' has the time 0.0 ms"),
        ({"a": [math.nan]}, ValueError, "'a' has the time nan ms"),
        ({"a": ["soon"]}, ValueError, "'a' has the time 'soon' ms"),
    ],
)
def test_spread_refuses(samples, error, message):
    with pytest.raises(error, match=message):
        spread(samples)


# ---- traces and accesses that are none -----------------------------------------------------------


@pytest.mark.parametrize("draw", [plots.warp_map, plots.block_map, traffic])
def test_a_trace_figure_refuses_what_is_no_trace(draw):
    with pytest.raises(TypeError, match=f"{draw.__name__} takes a trace, .* not 'trace'"):
        draw("trace")


def test_address_map_refuses_what_is_no_access():
    with pytest.raises(TypeError, match=r"takes accesses, .* \(which has no array\)"):
        plots.address_map("A")
    with pytest.raises(ValueError, match="one to four accesses, not 0"):
        plots.address_map()
    none = access("A", (4, 4), [(0, 0)])
    none = Access(**{**vars(none), "lanes": none.lanes[:0], "elements": none.elements[:0]})
    with pytest.raises(ValueError, match="no lane is active in this load of A"):
        plots.address_map(none)
    uneven = access("A", (4, 4), [(0, 0), (0, 1)], lanes=[0])
    with pytest.raises(ValueError, match="1 lanes, 2 entries of elements and 2 addresses"):
        plots.address_map(uneven)


# ---- share of cuBLAS -----------------------------------------------------------------------------


def test_cublas_share_draws_each_kernel_from_the_size_on_where_it_matters():
    fig = plots.cublas_share(measured(), since=1024)
    [ax] = by_gid(fig, "square products")
    lines = {line.get_label(): line for line in ax.lines}
    assert set(PEAKS) <= set(lines) and "cublas" not in lines
    assert list(lines["01_naive"].get_xdata()) == [size for size, *_ in SQUARES if size >= 1024]
    assert ax.get_ylim()[1] > 100 and ax.get_yscale() == "linear"


def test_cublas_share_of_slow_kernels_has_an_axis_of_their_own():
    slow = {name: PEAKS[name] for name in ("01_naive", "02_coalescing")}
    assert by_gid(plots.cublas_share(measured(slow)), "square products")[0].get_ylim()[1] < 50


def test_cublas_share_without_a_large_square_is_refused():
    with pytest.raises(ValueError, match="no square product of 512 or more"):
        plots.cublas_share(measured(shapes=[(64, 64, 64), (1024, 1024, 512)]))


# ---- style ---------------------------------------------------------------------------------------


def test_42_kernels_differ_in_colour_or_marker_and_in_colour_or_hatch():
    looks = [style.kernel_style(f"{number:02d}_name") for number in range(42)]
    for shape in ("marker", "hatch"):
        assert len({(look["color"], look[shape]) for look in looks}) == 42
    assert not {look["color"] for look in looks} & set(style.ARRAYS.values())


@given(
    wanted=st.lists(st.floats(-10, 10), min_size=1, max_size=12),
    gap=st.floats(0.01, 0.5),
)
def test_labels_are_spread_out_in_order_and_inside(wanted, gap):
    placed = style.spread_out(wanted, gap, -10, 10)
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    for before, after in itertools.pairwise(order):
        assert placed[after] - placed[before] >= gap - 1e-6
    assert min(placed) >= -10 - 1e-6
    assert max(placed) <= 10 + 1e-6


@given(wanted=st.lists(st.integers(-10, 10), min_size=1, max_size=12, unique=True))
def test_labels_that_have_room_stay_where_they_are(wanted):
    assert style.spread_out(wanted, 0.9, -10, 10) == pytest.approx(wanted)


@given(words=st.text(st.sampled_from("ab c"), max_size=200))
def test_wrapping_keeps_every_word_and_fits(words):
    lines = style.wrap(words, 1.0, 9)
    assert " ".join(lines).split() == words.split()
    assert all(style.text_width(line, 9) <= 1.0 or " " not in line for line in lines)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.267, "0.267"),
        (2.5, "2.50"),
        (51.13, "51.1"),
        (495.2, "495"),
        (51234.0, "51,234"),
        (0, "0"),
    ],
)
def test_three_digits(value, expected):
    assert style.digits(value) == expected
