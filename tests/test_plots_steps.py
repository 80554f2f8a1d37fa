"""Pictures of a block's way along K: what they show is what its frames hold."""

import numpy as np
import pytest
from figures import (  # noqa: F401
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_is_a_sentence_below_everything,
    texts,
    words,
)

import gemmlab as gl
from gemmlab import plots
from gemmlab.analysis import k_steps
from gemmlab.plots import style

SHAPES = {  # two by two blocks, four steps along K
    ("01_naive", 1): (128, 16, 64),
    ("03_shared_memory", 1): (64, 64, 256),
    ("05_thread_tile_2d", 1): (256, 128, 64),
    ("08_warp_tiling", 1): (256, 256, 32),
    ("09_double_buffering", 1): (256, 256, 32),
    ("09_double_buffering", 3): (256, 256, 32),
    ("14_wmma", 3): (256, 512, 256),
}


@pytest.fixture(scope="module")
def walks():
    made = {}

    def walk(name, stages=1):
        if (name, stages) not in made:
            settings = {"STAGES": stages} if name[:2] in ("09", "14") else {}
            trace = gl.load(name, **settings).trace(*SHAPES[name, stages], blocks=[(0, 0, 0)])
            made[name, stages] = k_steps.of(trace)
        return made[name, stages]

    return walk


FIGURES = [
    *((*key, number) for key in SHAPES for number in (1, 2)),
    *((*key, "all") for key in SHAPES),
    ("03_shared_memory", 1, 8),
    ("09_double_buffering", 3, 0),
    ("14_wmma", 3, 5),
]


@pytest.fixture(scope="module", params=FIGURES, ids=str)
def figure(request, walks):
    name, stages, number = request.param
    frames = walks(name, stages)
    return plots.steps(frames) if number == "all" else plots.step(frames, number)


def cells(figure, panel, gid, shape):
    """bool: the elements under the rectangles with a gid, as they are drawn in a panel."""
    (ax,) = [ax for ax in figure.axes if ax.get_gid() == panel]
    found = np.zeros(shape, bool)
    for part in ax.patches:
        if part.get_gid() == gid:
            x, y, across, down = (int(n) for n in part.get_bbox().bounds)
            found[y : y + down, x : x + across] = True
    return found


@pytest.mark.parametrize(("name", "stages"), [("03_shared_memory", 1), ("09_double_buffering", 3)])
def test_the_outlines_are_the_masks(name, stages, walks):
    for number, frame in enumerate(walks(name, stages)):
        figure = plots.step(walks(name, stages), number)
        for one in "AB":
            shape = frame.loaded[one].shape
            assert (cells(figure, f"map {one}", "loaded", shape) == frame.loaded[one]).all()
            assert (cells(figure, f"map {one}", "read", shape) == frame.read[one]).all()
            on_way = cells(figure, f"map {one}", "arriving", shape) | frame.loaded[one]
            assert (frame.arriving[one] <= on_way).all()
        written = cells(figure, "map C", "written", frame.mine.shape)
        assert (written == frame.written).all()


def test_colours_tell_what_was_read_from_what_only_lies_there(walks):
    frames = walks("09_double_buffering")
    figure = plots.step(frames, 1)  # tile 0 is read, tile 1 has been stored, the rest is to come
    (image,) = next(ax for ax in figure.axes if ax.get_gid() == "map A").images
    drawn = np.asarray(image.get_array())[0, :]
    read, there, white = (style.tint(style.BLUE, share) for share in (0.7, 0.4, 0))
    assert np.allclose(drawn[:8], read) and np.allclose(drawn[8:16], there)
    assert np.allclose(drawn[16:], white)


@pytest.mark.parametrize("number", range(6))
def test_the_numbers_are_those_of_the_frame(number, walks):
    frame = walks("09_double_buffering", 3)[number]
    figure = plots.step(walks("09_double_buffering", 3), number)
    said = [text.get_text() for text, _ in texts(figure) if text.get_gid() == "progress"]
    assert said == (["written"] if number == 5 else [f"{frame.products[0]} of 32\nproducts"])
    shown = {int(text) for text in words(figure) if text in ("0", "1", "2")}
    assert shown >= set(range(frame.buffers))
    assert any(f"Frame {number + 1} of 6" in text for text in words(figure))


def test_shared_memory_is_drawn_where_its_tiles_lie(walks):
    """09 with three stages: three times a[8][132], then three times b[8][128], in bytes."""
    figure = plots.step(walks("09_double_buffering", 3), 1)
    (ax,) = [ax for ax in figure.axes if ax.get_gid() == "memory"]
    starts = sorted(part.get_x() for part in ax.patches)
    a, b = 8 * 132, 8 * 128
    assert starts == [0, a, 2 * a, 3 * a, 3 * a + b, 3 * a + 2 * b]
    labels = [text.get_text() for text in ax.texts]
    tiles = ("k 0 to 7", "k 8 to 15", "k 16 to 23")
    assert sorted(labels) == sorted(f"{one}, {tile}" for one in "AB" for tile in tiles)
    assert f"Shared memory, {4 * 3 * (a + b):,} bytes in use" in words(figure)


def test_frames_of_a_block_have_one_size(walks):
    sizes = {
        tuple(plots.step(walks("08_warp_tiling"), number, "The same words.").get_size_inches())
        for number in (0, 1, 5, 9)
    }
    assert len(sizes) == 1


def test_an_overview_shows_the_first_two_a_middle_one_and_the_last(walks):
    figure = plots.steps(walks("03_shared_memory"))
    heads = [text for text in words(figure) if text.startswith("Frame ")]
    assert heads == [f"Frame {number} of 9" for number in (1, 2, 5, 9)]
    assert "in none of them the block both loads and multiplies" in figure.caption
    figure = plots.steps(walks("09_double_buffering"))
    assert "in 3 of them the block both loads and multiplies" in figure.caption


def test_what_is_not_there_is_refused(walks):
    frames = walks("03_shared_memory")
    with pytest.raises(ValueError, match="there is no frame 9; frames are 0 to 8"):
        plots.step(frames, 9)
    for wrong in (None, ["a"], frames[0].trace):
        with pytest.raises(TypeError, match="takes frames"):
            plots.steps(wrong)


def test_sums_on_their_way_out_lie_where_tiles_were(walks):
    """A strip of sums for each warp, with padding between its rows: one stretch, drawn in green."""
    frames = walks("14_wmma", 3)
    last = len(frames) - 1
    figure = plots.step(frames, last)
    (memory,) = [ax for ax in figure.axes if ax.get_gid() == "memory"]
    pieces = {one.get_gid(): one for one in memory.patches}
    first, end = np.flatnonzero(frames[last].sums)[[0, -1]]
    assert (pieces["piece C"].get_x(), pieces["piece C"].get_width()) == (first, end + 1 - first)
    assert "sums of C" in words(figure)
    assert "piece C" not in {
        patch.get_gid() for ax in plots.step(frames, last - 1).axes for patch in ax.patches
    }


def test_every_buffer_has_its_number_once(walks):
    for name, stages in (("09_double_buffering", 3), ("14_wmma", 3)):
        frames = walks(name, stages)
        for number, frame in enumerate(frames):
            figure = plots.step(frames, number)
            for array in "AB":
                (ax,) = [ax for ax in figure.axes if ax.get_gid() == f"map {array}"]
                shown = [text.get_text() for text in ax.texts]
                buffers = {int(one) for one in np.unique(frame.kept[array]) if one >= 0}
                assert sorted(shown) == sorted(map(str, buffers))
