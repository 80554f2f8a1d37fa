"""Sliders for what decides the error of a product of 8-bit floats: each move multiplies once."""

from __future__ import annotations

from functools import cache

import ipywidgets
import pandas

from gemmlab.kernel.kernel import KernelMistake
from gemmlab.ladder import IllegalSetting
from gemmlab.lessons.fp8 import errors
from gemmlab.lessons.fp8.errors import Case
from gemmlab.lessons.fp8.figures import fp8_errors_tried
from gemmlab.lessons.fp8.rung import RUNG as FP8
from gemmlab.lessons.fp8.rung import SCALES
from gemmlab.loading import load
from gemmlab.notebook.widgets import picture, status
from gemmlab.plots.style import VERMILION
from ptxsim import LaunchError
from ptxsim.compile.nvrtc import CompileError, NoCompiler

REASONS = (IllegalSetting, CompileError, NoCompiler, KernelMistake, LaunchError)


class ErrorSliders(ipywidgets.VBox):
    """Types, kind of scales, promotion interval, data and K, of products of rung 19.

    Each move quantizes random matrices, multiplies them, and compares with float64.
    """

    def __init__(self) -> None:
        self._tried: list[dict] = []
        self.sliders = {
            "dtype": _slider("types", enumerate(errors.TYPES), 0),
            "scales": _slider("scales of", enumerate(kind.name for kind in SCALES), 0),
            "promote": _slider("promoted", [(n, str(n or "never")) for n in errors.INTERVALS], 128),
            "data": _slider("data", [(data, data) for data in errors.DATA], errors.DATA[0]),
            "k": _slider("K", [(k, str(k)) for k in errors.FEW], 1024),
        }
        self.message, self.picture, self.caption = ipywidgets.HTML(), picture(), ipywidgets.HTML()
        controls = ipywidgets.HBox(
            list(self.sliders.values()), layout=ipywidgets.Layout(flex_flow="row wrap")
        )
        super().__init__([controls, self.message, self.picture, self.caption])
        for slider in self.sliders.values():
            slider.observe(self._moved, names="value")
        self._moved()

    def __repr__(self) -> str:
        return "Sliders for the errors of 19_fp8. Run this cell to move them."

    def _moved(self, _change=None) -> None:
        case = Case(**{name: slider.value for name, slider in self.sliders.items()})
        try:
            row = _row(case)
        except REASONS as reason:
            self._say(f"Not multiplied: {reason}")
            return
        self._tried.append(row)
        drawn = fp8_errors_tried(pandas.DataFrame(self._tried))
        self.picture.value, self.caption.value = drawn.png(), status(drawn.caption)
        self._say("")

    def _say(self, words: str) -> None:
        self.message.value = status(words, VERMILION)


@cache
def _row(case: Case) -> dict:
    by_sums, by_all = errors.errors(case, load(FP8.name, **case.settings))
    return {
        "data": case.data, "types": errors.TYPES[case.dtype], "scales": SCALES[case.scales].name,
        "promote": case.promote, "k": case.k, "sum_error": by_sums, "whole_error": by_all,
    }  # fmt: skip


def _slider(name: str, options, value) -> ipywidgets.SelectionSlider:
    return ipywidgets.SelectionSlider(
        options=[(label, choice) for choice, label in options], value=value, description=name,
        continuous_update=False,
    )  # fmt: skip
