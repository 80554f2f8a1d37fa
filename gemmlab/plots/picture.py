"""The matplotlib Figure that every plot returns: it carries its caption and draws itself alike
everywhere."""

from __future__ import annotations

import io
from typing import Any

import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image


class Picture(Figure):
    """A Figure with a caption below the drawing, placed in inches from its upper left corner.

    It is independent of pyplot: nothing is shown twice, and no backend is needed. As text, in a
    notebook's output for instance, it is its caption.
    """

    def __init__(self, width: float, height: float, caption: str, **kwargs: Any) -> None:
        super().__init__(figsize=(width, height), **kwargs)
        FigureCanvasAgg(self)
        self.caption = caption

    def add_axes_at(self, left: float, top: float, width: float, height: float, **kwargs: Any):
        """Axes of that size in inches, from the left and from the top of the figure."""
        across, down = self.get_size_inches()
        bounds = (left / across, 1 - (top + height) / down, width / across, height / down)
        return self.add_axes(bounds, **kwargs)

    def text_at(self, left: float, top: float, words: str, **kwargs: Any):
        """Text whose upper left corner lies so many inches from the left and from the top."""
        across, down = self.get_size_inches()
        return self.text(left / across, 1 - top / down, words, **{"va": "top", **kwargs})

    def png(self, scale: int = 1) -> bytes:
        """The bytes of a PNG file, the same for the same drawing; 100 · scale pixels an inch."""
        drawn, small, dpi = io.BytesIO(), io.BytesIO(), 100 * scale
        with matplotlib.style.context("default"):
            self.savefig(drawn, format="raw", dpi=dpi, facecolor=self.get_facecolor())
        pixels = tuple(int(size * dpi) for size in self.get_size_inches())
        # 256 colours are plenty for flat areas and text, and make the file a third as large. This
        # method keeps the colours of small areas too.
        colours = Image.frombuffer("RGBA", pixels, drawn.getvalue()).convert("RGB")
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
