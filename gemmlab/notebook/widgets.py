"""Common parts of sliders and players: a picture, text on a light ground, a slider that plays."""

import html

import ipywidgets

from gemmlab.plots.style import FAINT, GROUND, INK

PAPER = f"color: {INK}; background: {GROUND}; padding: 0.4em; line-height: 1.4"


def picture(max_width: str = "900px") -> ipywidgets.Image:
    """Room for a PNG file, as wide as a page or as `max_width`."""
    layout = ipywidgets.Layout(width="100%", max_width=max_width)
    return ipywidgets.Image(format="png", layout=layout)


def status(words: str, colour: str = FAINT) -> str:
    """HTML that screen readers read out when it changes; nothing to see without words."""
    style = f"{PAPER}; border-left: 4px solid {colour}" if words else ""
    return f'<div role="status" style="{style}">{html.escape(words)}</div>'


class Player(ipywidgets.VBox):
    """A slider through numbered pictures, from 1 on, to play or to move, and the same in words.

    `numbers`: what is numbered, in a word; `interval`: milliseconds from one to the next;
    `others`: controls to the left of it. A subclass shows `slider.value` in `show`.
    """

    def __init__(self, numbers: str, tooltip: str, interval: int, *others: ipywidgets.Widget):
        self.picture, self.caption = picture(), ipywidgets.HTML()
        self.slider = ipywidgets.IntSlider(
            value=1, min=1, max=1, description=numbers, continuous_update=False, tooltip=tooltip
        )
        self.play = ipywidgets.Play(value=1, min=1, max=1, interval=interval)
        ipywidgets.jslink((self.play, "value"), (self.slider, "value"))
        self.controls = ipywidgets.HBox([*others, self.play, self.slider])
        super().__init__([self.controls, self.picture, self.caption])
        self.slider.observe(lambda change: self.show(), names="value")

    def show(self) -> None:
        """Show the picture and the words of `slider.value`."""
        raise NotImplementedError

    def end_at(self, last: int) -> None:
        """Let there be so many numbers."""
        self.slider.max = self.play.max = last
        self.slider.value = min(self.slider.value, last)

    def say(self, words: str, colour: str = FAINT) -> None:
        self.caption.value = status(words, colour)
