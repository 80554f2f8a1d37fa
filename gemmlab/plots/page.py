"""The page of a figure: its title, its key, and its caption below all that is drawn."""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from PIL import Image

from gemmlab.plots import style
from gemmlab.plots.style import LARGE, LINE, MARGIN, NORMAL, SMALL


class Picture(Figure):
    """A Figure with a caption below the drawing, placed in inches from its upper left corner.

    It is independent of pyplot: nothing is shown twice, and no backend is needed. As text, in a
    notebook's output for instance, it is its caption.
    """

    def __init__(self, width: float, height: float, caption: str, **kwargs: Any) -> None:
        super().__init__(figsize=(width, height), **kwargs)
        FigureCanvasAgg(self)
        self.caption = caption
        self.top = 0.0  # inches; where page() leaves room to draw

    def add_axes_at(
        self, left: float, top: float, width: float, height: float, **kwargs: Any
    ) -> Axes:
        """Axes of that size in inches, from the left and from the top of the figure."""
        across, down = self.get_size_inches()
        bounds = (left / across, 1 - (top + height) / down, width / across, height / down)
        return self.add_axes(bounds, **kwargs)

    def text_at(self, left: float, top: float, words: str, **kwargs: Any) -> Text:
        """Text whose upper left corner lies so many inches from the left and from the top."""
        across, down = self.get_size_inches()
        return self.text(left / across, 1 - top / down, words, **{"va": "top", **kwargs})

    def png(self, scale: int = 1) -> bytes:
        """The bytes of a PNG file, the same for the same drawing; 100 · scale pixels an inch."""
        drawn, small, dpi = io.BytesIO(), io.BytesIO(), 100 * scale
        with matplotlib.style.context("default"):
            self.savefig(drawn, format="raw", dpi=dpi, facecolor=self.get_facecolor())
        across, down = (int(size * dpi) for size in self.get_size_inches())
        # 256 colours are plenty for flat areas and text, and make the file a third as large. This
        # method keeps the colours of small areas too.
        colours = Image.frombuffer("RGBA", (across, down), drawn.getvalue()).convert("RGB")
        colours = colours.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        # More work than this makes it a tenth smaller, and takes four times as long.
        colours.save(small, format="png", compress_level=7)
        return small.getvalue()

    def __repr__(self) -> str:
        return f"Figure: {self.caption}"

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """For notebooks: twice the pixels, shown at 100 an inch, so that text is sharp."""
        width, height = (round(100 * size) for size in self.get_size_inches())
        return self.png(scale=2), {"width": width, "height": height}


def styled(draw: Callable[..., Picture]) -> Callable[..., Picture]:
    """Draw with this style alone, whatever the reader's matplotlib settings are."""

    @wraps(draw)
    def inner(*args: Any, **kwargs: Any) -> Picture:
        with matplotlib.style.context(["default", style.RC]):
            figure = draw(*args, **kwargs)
            # Ticks take the style of the moment when they are made, at their first use.
            for axes in figure.axes:
                for axis in (axes.xaxis, axes.yaxis):
                    if axes.axison and axis.get_visible():
                        axis.get_ticklabels(which="both")
            return figure

    return inner


TITLE_TOP, KEY_ROW = 0.12, 0.22  # inches
SIGN, NEXT_SIGN = 0.2, 0.23  # inches: a swatch, from it to the next one of the same words
SIGN_GAP, KEY_GAP = 0.08, 0.24  # inches: from a swatch to its words, to the next entry
Sign = Mapping[str, Any]
Entry = tuple[str, Sign | Sequence[Sign] | None]


def page(
    title: str, height: float, caption: str, footer: str = "", *, key: Sequence[Entry] = ()
) -> Picture:
    """A figure of the width of a page: title, key, `height` inches to draw on, and the caption.

    What is drawn begins at figure.top, in inches from the top. The key stands beside the title if
    there is room for both, else below it; its entries are as in draw_key. The caption is wrapped
    to the width; the footer, a line in smaller type, says where numbers come from.
    """
    right = style.WIDTH - MARGIN
    width = right - MARGIN
    key_width = max((end for *_, end in _places(key, 0.0, math.inf)), default=0.0)
    beside = not key or style.text_width(title, LARGE, "bold") + 0.4 + key_width <= width
    title_lines = style.wrap(title, 0.88 * width, LARGE)  # it is bold
    below_title = TITLE_TOP + (len(title_lines) * LARGE * LINE / 72 + 0.11 if title else 0.0)
    rows = 0 if beside else 1 + max(row for row, *_ in _places(key, MARGIN, right))
    top = below_title + KEY_ROW * rows + (0.08 if rows else 0.0)
    bottom = top + height
    lines = style.wrap(caption, width, NORMAL)
    caption_height = len(lines) * NORMAL * LINE / 72
    footer_height = SMALL * LINE / 72 + 0.03 if footer else 0.0
    total = math.ceil((bottom + caption_height + footer_height + MARGIN) * style.DPI) / style.DPI
    fig = Picture(style.WIDTH, total, caption, dpi=style.DPI)
    fig.top = top
    words = "\n".join(title_lines)
    fig.text_at(MARGIN, TITLE_TOP, words, size=LARGE, weight="bold", linespacing=LINE)
    if rows:
        draw_key(fig, key, below_title)
    else:
        draw_key(fig, key, TITLE_TOP + 0.03, right - key_width)
    fig.text_at(MARGIN, bottom, "\n".join(lines), size=NORMAL, linespacing=LINE, gid="caption")
    if footer:
        below = bottom + caption_height + 0.03
        fig.text_at(MARGIN, below, footer, size=SMALL, color=style.FAINT, gid="footer")
    return fig


def draw_key(
    fig: Picture, key: Sequence[Entry], top: float, left: float = MARGIN,
    right: float = style.WIDTH - MARGIN,
) -> float:  # fmt: skip
    """Signs and their words, as many to a row as fit; where they end, in inches from the top.

    key: (words, look) each, or (words, looks) for several signs; None for no sign. A look with a
    hatch or a facecolor is that of a swatch, another that of a line and its marker.
    """
    row = -1
    for (words, look), (row, x, _) in zip(key, _places(key, left, right), strict=True):
        y = top + KEY_ROW * row
        for sign in _signs(look):
            _draw_sign(fig, x, y + 0.07, sign)
            x += NEXT_SIGN
        fig.text_at(x + bool(look) * (SIGN + SIGN_GAP - NEXT_SIGN), y, words, size=SMALL)
    return top + KEY_ROW * (row + 1)


def _signs(look: Sign | Sequence[Sign] | None) -> Sequence[Sign]:
    return [look] if isinstance(look, Mapping) else look or []


def _places(key: Sequence[Entry], left: float, right: float) -> list[tuple[int, float, float]]:
    """The row of each entry, and where it begins and ends there."""
    places, row, x = [], 0, left
    for words, look in key:
        wide = style.text_width(words, SMALL)
        if look:
            wide += NEXT_SIGN * (len(_signs(look)) - 1) + SIGN + SIGN_GAP
        if left < x and x + wide > right + 1e-9:
            row, x = row + 1, left
        places.append((row, x, x + wide))
        x += wide + KEY_GAP
    return places


def _draw_sign(fig: Picture, x: float, middle: float, look: Sign) -> None:
    across, down = fig.get_size_inches()
    if {"facecolor", "hatch"} & look.keys():
        look = {"linewidth": 0.8, "edgecolor": "none", **look}
        corner = (x / across, 1 - (middle + 0.065) / down)
        fig.add_artist(Rectangle(corner, SIGN / across, 0.13 / down, **look))
        return
    along = [(x + part * SIGN) / across for part in (0, 0.5, 1)]
    line = Line2D(along, [1 - middle / down] * 3, **{"markevery": [1], "markersize": 6, **look})
    fig.add_artist(line)


def swatch(colour: str, share: float = 0.45, **look: Any) -> dict[str, Any]:
    """The look of an area: a tint of a colour, with that colour around it."""
    return {"facecolor": style.tint(colour, share), "edgecolor": colour, "linewidth": 0.8, **look}


def write_notes(fig: Picture, left: float, top: float, notes: Mapping[str, Sequence[str]]) -> float:
    """Lines of words, each under its heading; where they end, in inches from the top."""
    for heading, lines in notes.items():
        fig.text_at(left, top, heading, size=NORMAL, weight="bold")
        top += NORMAL * LINE / 72 + 0.03
        for line in lines:
            for part in style.wrap(line, style.WIDTH - MARGIN - left, SMALL):
                fig.text_at(left, top, part, size=SMALL)
                top += SMALL * LINE / 72
            top += 0.03
        top += 0.06
    return top
