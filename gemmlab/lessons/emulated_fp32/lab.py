"""Sliders for what decides the error of a float32 product from parts: each move multiplies."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache

import ipywidgets
import pandas

from gemmlab.lessons.emulated_fp32 import errors
from gemmlab.lessons.emulated_fp32.errors import DATA, INTERVALS, SGEMM, WAYS, Case
from gemmlab.lessons.emulated_fp32.figures import WORDS, tried
from gemmlab.notebook.widgets import picture, status

DEPTHS = tuple(k for k in errors.DEPTHS if k <= 4096)  # a second at most


class ErrorSliders(ipywidgets.VBox):
    """Each move multiplies random matrices by the kernel's model, and compares with float64."""

    def __init__(self) -> None:
        self._tried: list[Case] = []
        intervals = [(str(interval or "never"), interval) for interval in INTERVALS]
        self.sliders = {
            "way": _slider("parts×products", [(way, way) for way in WAYS], WAYS[0]),
            "promote": _slider("promoted", intervals, 128),
            "data": _slider("data", [(WORDS[data], data) for data in DATA], "uniform"),
            "k": _slider("K", [(str(k), k) for k in DEPTHS], 1024),
        }
        self.picture, self.caption = picture(), ipywidgets.HTML()
        controls = ipywidgets.HBox(
            list(self.sliders.values()), layout=ipywidgets.Layout(flex_flow="row wrap")
        )
        super().__init__([controls, self.picture, self.caption])
        for slider in self.sliders.values():
            slider.observe(self._moved, names="value")
        self._moved()

    def __repr__(self) -> str:
        return "Sliders for the errors of 23_emulated_fp32. Run this cell to move them."

    def _moved(self, _change=None) -> None:
        case = Case(**{name: slider.value for name, slider in self.sliders.items()})
        self._tried += [Case(SGEMM, 0, case.data, case.k), case]
        drawn = tried(pandas.DataFrame(map(_row, self._tried)))
        self.picture.value, self.caption.value = drawn.png(), status(drawn.caption)


@cache
def _row(case: Case) -> dict:
    return asdict(case) | dict(zip(("largest", "rms"), errors.errors(case), strict=True))


def _slider(name: str, options: list, value) -> ipywidgets.SelectionSlider:
    return ipywidgets.SelectionSlider(
        options=options, value=value, description=name, continuous_update=False
    )
