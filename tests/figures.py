"""What every figure must pass: a module imports the checks, and has a fixture `figure`."""

import itertools

from matplotlib.text import Text

from gemmlab.plots import style


def texts(figure):
    """Every text that can be seen, with where it is drawn, in dots."""
    return [
        (text, Text.get_window_extent(text))
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text()
    ]


def words(figure):
    return [text.get_text() for text, _ in texts(figure)]


def by_gid(figure, gid):
    (found,) = figure.findobj(lambda artist: artist.get_gid() == gid)
    return found


def test_all_of_it_can_be_read(figure):
    assert figure.get_size_inches()[0] == style.WIDTH
    width, height = figure.get_size_inches() * figure.dpi
    for text, box in texts(figure):
        assert text.get_fontsize() >= style.SMALL
        assert min(box.x0, box.y0) >= 0 and box.x1 <= width and box.y1 <= height


def test_no_text_lies_on_another(figure):
    clashes = [
        (one.get_text(), other.get_text())
        for (one, a), (other, b) in itertools.combinations(texts(figure), 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]
    assert clashes == []


def test_the_caption_is_a_sentence_below_everything(figure):
    assert len(figure.caption) >= 40 and figure.caption.endswith(".")
    (top,) = [box.y1 for text, box in texts(figure) if text.get_gid() == "caption"]
    assert all(ax.get_tightbbox().y0 >= top for ax in figure.axes)
