"""What sliders and players share: a picture, and words on a light ground."""

from __future__ import annotations

import html

import ipywidgets

from gemmlab.plots.style import FAINT, GROUND, INK

PAPER = f"color: {INK}; background: {GROUND}; padding: 0.4em; line-height: 1.4"


def picture(max_width: str = "900px") -> ipywidgets.Image:
    """Room for a PNG file, as wide as a page or as `max_width`."""
    return ipywidgets.Image(
        format="png", layout=ipywidgets.Layout(width="100%", max_width=max_width)
    )


def status(words: str, colour: str = FAINT) -> str:
    """HTML that screen readers read out when it changes; nothing to see without words."""
    style = f"{PAPER}; border-left: 4px solid {colour}" if words else ""
    return f'<div role="status" style="{style}">{html.escape(words)}</div>'
