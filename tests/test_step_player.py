"""The step player, moved in Python: every frame has its picture, its words and one size."""

import html
import io
import re

import pytest
from PIL import Image

import gemmlab as gl


@pytest.fixture(scope="module")
def player():
    return gl.step_player(gl.load("09_double_buffering", STAGES=3))


def words_of(player):
    return html.unescape(re.sub("<[^>]*>", "", player.caption.value))


def test_it_begins_with_the_first_frame_of_two_by_two_blocks(player):
    trace = player.frames[0].trace
    assert trace.grid == (2, 2, 1) and trace.k == 4 * trace.settings["BK"]
    assert (player.slider.min, player.slider.max) == (1, len(player.frames))
    assert (player.play.min, player.play.max) == (1, len(player.frames))
    assert not player.slider.continuous_update
    assert words_of(player) == f"Frame 1 of 6. {player.frames[0].caption}"


def test_moving_the_slider_shows_another_frame_and_back_the_same(player):
    seen = []
    for number in [*range(1, 5), *range(1, 5)]:
        player.slider.value = number
        seen.append((player.picture.value, words_of(player)))
        assert player.frames[number - 1].caption in words_of(player)
    assert len(set(seen)) == 4 and seen[:4] == seen[4:]
    assert len({Image.open(io.BytesIO(picture)).size for picture, _ in seen}) == 1


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ((-1,), "m is -1; it must be a whole number, 0 or more"),
        ((64, 2.5), "n is 2.5; it must be a whole number"),
        ((64, 64, True), "k is True; it must be a whole number"),
        ((512, 512, 512), "A, B and C have 786,432 elements, at most 524,288 can be seen"),
    ],
)
def test_what_cannot_be_shown_is_said_in_its_place(sizes, reason, capsys):
    player = gl.step_player(gl.load("03_shared_memory", TILE=8, BK=8), *sizes)
    assert words_of(player).startswith("No picture:") and reason in words_of(player)
    assert player.picture.value == b"" and player.picture.layout.display == "none"
    assert capsys.readouterr() == ("", "")


def test_a_kernel_that_leaves_its_arrays_says_so():
    text = gl.load("01_naive").source().text.replace("[(size_t)row * K + k]", "[-1]")
    player = gl.step_player(gl.from_source(text, "01_naive"))
    assert "out-of-bounds read" in words_of(player) and not player.frames


def test_it_prints_nothing_and_is_the_same_each_time(capsys):
    """What a notebook keeps of a widget is its text, and that is compared."""
    texts = []
    for _ in range(2):
        player = gl.step_player(gl.load("03_shared_memory", TILE=8, BK=8))
        player.slider.value = 2
        texts.append(repr(player))
    assert texts[0] == texts[1] and "0x" not in texts[0]
    assert capsys.readouterr() == ("", "")
