"""What every figure must pass: a module imports test_it_can_be_read, and has a fixture `figure`."""

import itertools
import weakref

import matplotlib
from matplotlib.text import Text

DRAWN = weakref.WeakKeyDictionary()  # figure -> where its texts are


def shown(figure):
    """Every text that can be seen."""
    hidden = set()  # labels of ticks beyond the limits of their axis: they exist, undrawn
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if not low - 1e-9 <= tick.get_loc() <= high + 1e-9:
                    hidden |= {tick.label1, tick.label2}
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text() and text not in hidden
    ]


def texts(figure):
    """Every text that can be seen, with where it is drawn, in dots; the figure is drawn once."""
    if figure not in DRAWN:
        figure.draw_without_rendering()
        DRAWN[figure] = [(text, Text.get_window_extent(text)) for text in shown(figure)]
    return DRAWN[figure]


def words(figure):
    return [text.get_text() for text in shown(figure)]


def the_one(figure, gid):
    """What is drawn with this gid, and nothing else has it."""
    (named,) = figure.findobj(lambda artist: artist.get_gid() == gid)
    return named


def test_it_can_be_read(figure):
    """No text is small, outside of the page or on another; below all of it stands a sentence."""
    assert isinstance(figure, matplotlib.figure.Figure)
    assert figure.get_size_inches()[0] == 9  # inches: 900 pixels
    width, height = figure.get_size_inches() * figure.dpi
    small = {text.get_text() for text, _ in texts(figure) if text.get_fontsize() < 8}
    outside = {
        text.get_text()
        for text, box in texts(figure)
        if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height
    }
    clashes = [
        (text.get_text(), other.get_text())
        for (text, a), (other, b) in itertools.combinations(texts(figure), 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]
    assert (small, outside, clashes) == (set(), set(), [])
    caption = the_one(figure, "caption")
    assert " ".join(caption.get_text().split()) == " ".join(figure.caption.split())
    assert len(figure.caption) >= 40 and figure.caption.endswith(".")
    assert repr(figure) == f"Figure: {figure.caption}"
    top = caption.get_window_extent().y1
    assert all(ax.get_tightbbox().y0 >= top for ax in figure.axes)
    above = [box.y0 for text, box in texts(figure) if text.get_gid() not in ("caption", "footer")]
    assert min(above) >= top
