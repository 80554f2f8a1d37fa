"""Figures of 4-byte and 16-byte loads, and of A's transposed tile: they show what was traced."""

import pytest
from figures import (  # noqa: F401
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_is_a_sentence_below_everything,
    texts,
)

import gemmlab
from gemmlab.lessons.vectorized_loads import figures
from ptxsim.metrics import wavefronts

SHAPE = (128, 128, 32)


@pytest.fixture(scope="module")
def single():
    return gemmlab.load("05_thread_tile_2d", BN=128, TN=8).trace(*SHAPE)


@pytest.fixture(scope="module")
def vectors():
    return gemmlab.load("06_vectorized_loads").trace(*SHAPE)


@pytest.fixture(scope="module")
def swizzled():
    return gemmlab.load("07_bank_conflicts").trace(*SHAPE)


@pytest.fixture(scope="module")
def short_step():
    return gemmlab.load("06_vectorized_loads", BK=8).trace(*SHAPE)


def both(array, single, vectors):
    return {trace.kernel_name: trace.warp_access(array) for trace in (single, vectors)}


@pytest.fixture(
    scope="module", params=["widths A", "widths B", "staging", "swizzled", "short step"]
)
def figure(request, single, vectors, swizzled, short_step):
    return {
        "widths A": lambda: figures.access_widths(both("A", single, vectors)),
        "widths B": lambda: figures.access_widths(both("B", single, vectors)),
        "staging": lambda: figures.staging(vectors),
        "swizzled": lambda: figures.staging(swizzled, warp=3),
        "short step": lambda: figures.staging(short_step, warp=1),
    }[request.param]()


def marked(parent, start):
    """What carries a gid that begins so: {gid: (x, y, width, height)}."""
    found = [item for item in parent.findobj() if (item.get_gid() or "").startswith(start)]
    return {item.get_gid(): (*item.get_xy(), item.get_width(), item.get_height()) for item in found}


def axes(figure, gid):
    (found,) = [ax for ax in figure.axes if ax.get_gid() == gid]
    return found


# ---- widths of loads -----------------------------------------------------------------------------


def test_every_lane_stands_at_its_bytes(single, vectors):
    for name, access in both("A", single, vectors).items():
        figure = figures.access_widths({name: access})
        lanes = marked(axes(figure, f"lines {name}"), "lane ")
        lines = sorted({int(address) // 128 for address in access.addresses})
        assert len(lanes) == 32
        for lane, address in zip(access.lanes, access.addresses, strict=True):
            x, y, width, height = lanes[f"lane {lane}"]
            middle = int(address) % 128 + access.width / 2
            assert x + width / 2 == pytest.approx(middle)
            assert access.width - 1 < width < access.width
            assert int(y + height / 2) == lines.index(int(address) // 128)


def test_the_widths_caption_says_what_was_counted(single, vectors):
    caption = figures.access_widths(both("B", single, vectors)).caption
    assert "05_thread_tile_2d moves 128 bytes in 1 request and 4 sectors" in caption
    assert "06_vectorized_loads moves 512 bytes in 1 request and 16 sectors" in caption
    assert "Every byte" in caption


def test_a_store_that_uses_a_part_of_its_sectors_is_not_called_whole(single):
    figure = figures.access_widths({"05": single.warp_access("C", op="store")})
    assert "a store of C in 05 moves 128 bytes in 1 request and 32 sectors" in figure.caption
    assert "Every byte" not in figure.caption


def test_what_cannot_be_drawn_is_refused():
    far = gemmlab.load("01_naive").trace(64, 64, 64).warp_access("A")
    with pytest.raises(ValueError, match="touches 32 lines"):
        figures.access_widths({"01_naive": far})
    shared = gemmlab.load("02_coalescing").trace(64, 64, 64).warp_access("A")
    with pytest.raises(ValueError, match="lanes share elements"):
        figures.access_widths({"02_coalescing": shared})
    with pytest.raises(ValueError, match="one access or more"):
        figures.access_widths({})
    with pytest.raises(TypeError, match="takes accesses"):
        figures.access_widths({"nothing": None})


# ---- the transposed tile -------------------------------------------------------------------------


def test_every_lane_stores_where_it_was_traced(vectors):
    banks = axes(figures.staging(vectors), "banks")
    traced = [a for a in vectors.run.accesses((0, 0, 0), 0) if a.array == "shared memory"][:4]
    cells = marked(banks, "store ")
    assert len(cells) == 4 * 32
    rows = sorted({int(address) // 128 for store in traced for address in store.addresses})
    for number, store in enumerate(traced):
        for lane, address in enumerate(store.addresses):
            row, byte = divmod(int(address), 128)
            assert cells[f"store {number} lane {lane}"][:2] == (byte // 4, rows.index(row))


def test_each_row_of_the_tile_is_the_column_of_a_that_the_kernel_puts_there(vectors, swizzled):
    for trace in (vectors, swizzled):
        ax = axes(figures.staging(trace), "banks")
        names = [label.get_text() for label in ax.get_yticklabels()]
        assert names == [f"A[:, {k}], byte {512 * k:,}" for k in range(16)]


def test_wavefronts_are_those_that_are_counted(vectors, swizzled):
    for trace, words in ((vectors, "8 banks of 32 and takes 4 wavefronts"),
                         (swizzled, "32 banks of 32 and takes 1 wavefront.")):  # fmt: skip
        assert words in figures.staging(trace).caption
        first = next(a for a in trace.run.accesses((0, 0, 0), 0) if a.array == "shared memory")
        counted = int(wavefronts(first.addresses[None], first.active[None], 4, 1)[0, 0])
        assert f"takes {counted} wavefront" in figures.staging(trace).caption


def test_what_is_read_first_is_outlined_where_the_stores_put_it(vectors):
    figure = figures.staging(vectors)
    assert marked(axes(figure, "banks"), "read ") == {"read 0": (0, 0, 4, 1)}
    words = [text.get_text() for text, _ in texts(figure)]
    assert "read by lanes 0–15" in words and "read first" in words
    assert "16 bytes outlined are what lanes 0–15 ask for" in figure.caption


def test_nothing_is_outlined_where_a_warp_reads_what_others_store(vectors):
    figure = figures.staging(vectors, warp=3)
    assert marked(axes(figure, "banks"), "read ") == {}
    assert "read first" not in [text.get_text() for text, _ in texts(figure)]
    assert "outlined" not in figure.caption


def test_staging_is_refused_for_loads_of_4_bytes(single):
    with pytest.raises(ValueError, match="loads 4 bytes"):
        figures.staging(single)
    with pytest.raises(TypeError, match="takes a trace"):
        figures.staging(None)
