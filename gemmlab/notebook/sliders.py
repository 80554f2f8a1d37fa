"""The lab: sliders for the tile parameters of a rung, and what they change.

Every move loads the kernel with the new settings, traces one block of a small product, and redraws.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass

import ipywidgets

from gemmlab import ladder
from gemmlab.analysis import facts as facts_of
from gemmlab.cuda.architectures import ARCHS, SIMULATED_ARCH
from gemmlab.cuda.nvrtc import CompileError, NoCompiler
from gemmlab.cuda.occupancy import OccupancyError
from gemmlab.kernel.kernel import Kernel, KernelMistake
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import IllegalSetting, LadderError, Settings
from gemmlab.loading import load
from gemmlab.measure.timing import TimingError
from gemmlab.notebook.heat import heat
from gemmlab.notebook.panel import PAPER, picture, status
from gemmlab.plots.kernel_view import caption_of, panels, resources
from gemmlab.plots.style import FAINT, VERMILION
from gemmlab.records.roofs import Ceilings, ceilings
from gemmlab.simulator import LaunchError

DPI = 120  # of the picture: more take longer to draw
REASONS = (
    IllegalSetting, CompileError, NoCompiler, KernelMistake, LaunchError, OccupancyError,
    TimingError, VerificationError,
)  # fmt: skip


@dataclass(frozen=True)
class View:
    """What is shown of one choice of settings: a PNG file, and the rest as HTML."""

    picture: bytes
    caption: str
    lines: str
    numbers: str


def lab(name: str) -> Lab:
    """Sliders for the tile parameters of the rung `name`, and a picture that follows them.

    Raises LadderError for a name that is not there.
    """
    if isinstance(name, Kernel):
        raise LadderError(
            f"gl.lab takes the name of a rung, not a kernel: gl.lab({name.name!r}) has the sliders "
            "of this one"
        )
    return Lab(ladder.find(name))


class Lab(ipywidgets.VBox):
    """Sliders, a GPU architecture to choose, one picture, and the same as text.

    Settings that do not go together are answered with the reason in place of the picture, and with
    a button for the nearest ones that do. What was shown once is kept.
    """

    def __init__(self, rung: ladder.Rung):
        self.rung = rung
        self._views: dict[tuple, View] = {}
        self._roofs = ceilings()
        self._setting = False  # several sliders at once: one picture, not one for each
        self.sliders = {one.name: _slider(one) for one in rung.parameters}
        self.arch = ipywidgets.Dropdown(
            options=ARCHS, value=SIMULATED_ARCH, description="GPU",
            tooltip="GPU architecture",
        )  # fmt: skip
        self.message = ipywidgets.HTML()
        self.offer = ipywidgets.Button(layout=ipywidgets.Layout(display="none", width="auto"))
        self.picture = picture()
        self.caption, self.lines, self.numbers = (ipywidgets.HTML() for _ in range(3))
        details = ipywidgets.Accordion(
            [self.lines, self.numbers],
            titles=("The kernel's lines and what they cost", "All numbers"),
        )
        rows = [_row(slider, one.meaning) for slider, one in self._parameters()]
        arch = _row(self.arch, "whose registers and occupancy are shown")
        super().__init__(
            [*rows, arch, self.message, self.offer, self.picture, self.caption, details]
        )
        self.add_class("gemmlab-lab")
        for control in (*self.sliders.values(), self.arch):
            control.observe(self._moved, names="value")
        self.offer.on_click(self._take_offer)
        self._moved()

    def __repr__(self) -> str:
        sliders = ", ".join(self.sliders)
        return f"Sliders for {self.rung.name}: {sliders}. Run this cell to move them."

    @property
    def settings(self) -> Settings:
        """As the sliders stand."""
        return {name: slider.value for name, slider in self.sliders.items()}

    def choose(self, settings: Settings) -> None:
        """Move several sliders at once."""
        self._setting = True
        try:
            for name, value in settings.items():
                self.sliders[name].value = value
        finally:
            self._setting = False
        self._moved()

    def _parameters(self):
        return ((self.sliders[one.name], one) for one in self.rung.parameters)

    def _moved(self, _change=None) -> None:
        if self._setting:
            return
        key = (*self.settings.values(), self.arch.value)
        try:
            if key not in self._views:
                self._say("Tracing …")
                kernel = load(self.rung.name, **self.settings)
                self._views[key] = _view(kernel, self.arch.value, self._roofs)
        except REASONS as reason:
            self._refuse(str(reason))
            return
        except KeyboardInterrupt:
            self._say("Stopped. Move a slider to draw again.")
            raise
        view = self._views[key]
        self.picture.value, self.picture.layout.display = view.picture, None
        self.caption.value, self.lines.value, self.numbers.value = (
            view.caption, view.lines, view.numbers,
        )  # fmt: skip
        self.offer.layout.display = "none"
        self._say("")

    def _refuse(self, reason: str) -> None:
        """No picture, the reason, and where sliders can cure it a button."""
        self.picture.value, self.picture.layout.display = b"", "none"
        self.caption.value = self.lines.value = self.numbers.value = ""
        self._say(f"No picture: {reason}", VERMILION)
        near = ladder.nearest(self.rung, self.settings)
        self.offer.description = f"Use {ladder.listed(near)}"
        self.offer.layout.display = "none" if near == self.settings else None

    def _take_offer(self, _button) -> None:
        self.choose(ladder.nearest(self.rung, self.settings))

    def _say(self, words: str, colour: str = FAINT) -> None:
        self.message.value = status(words, colour)


def _slider(parameter: ladder.Parameter) -> ipywidgets.SelectionSlider:
    slider = ipywidgets.SelectionSlider(
        options=parameter.legal, value=parameter.default, description=parameter.name,
        continuous_update=False, tooltip=parameter.meaning,
    )  # fmt: skip
    slider.add_class(f"gemmlab-{parameter.name}")
    return slider


def _row(control: ipywidgets.DOMWidget, meaning: str) -> ipywidgets.HBox:
    return ipywidgets.HBox([control, ipywidgets.Label(meaning)])


def _view(kernel: Kernel, arch: str, roofs: Ceilings) -> View:
    found = facts_of.of(kernel, arch)
    said = "<br>".join(map(html.escape, [caption_of(found, roofs), *resources(found)]))
    return View(
        panels(found, roofs, DPI),
        f'<div style="{PAPER}">{said}</div>',
        heat(found.trace)._repr_html_(),
        _numbers(found),
    )


def _numbers(found: facts_of.Facts) -> str:
    cells = "".join(
        f'<tr><th scope="row" style="text-align: left; font-weight: normal">{quantity}</th>'
        f'<td style="text-align: right; padding: 0 0.6em">{_words(value)}</td><td>{unit}</td></tr>'
        for quantity, value, unit in found.table().itertuples(index=False)
    )
    return f'<div style="{PAPER}"><table>{cells}</table></div>'


def _words(value) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "not recorded"
    return value if isinstance(value, str) else f"{value:,.4g}" if value % 1 else f"{value:,.0f}"
