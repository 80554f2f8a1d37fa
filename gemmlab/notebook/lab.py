"""The lab: sliders for the tile parameters of a rung, and what they change.

Every move loads the kernel with the new settings, traces one block of a small product, and redraws.
"""

from __future__ import annotations

import html
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import ipywidgets
import pandas

from gemmlab import ladder
from gemmlab.analysis import facts as facts_of
from gemmlab.kernel import prebuilt
from gemmlab.kernel.kernel import Kernel, KernelMistake
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import IllegalSetting, Rung, Settings
from gemmlab.loading import load
from gemmlab.measure.ceilings import CeilingsError
from gemmlab.measure.timing import TimingError
from gemmlab.notebook.heat import Heat
from gemmlab.notebook.widgets import PAPER, picture, status
from gemmlab.plots.kernel_view import caption_of, panels, resources
from gemmlab.plots.style import FAINT, VERMILION
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from gemmlab.records.roofs import Ceilings, ceilings
from gemmlab.report import number
from ptxsim import LaunchError
from ptxsim.architectures import ARCHS, SIMULATED_ARCH
from ptxsim.compile.nvrtc import CompileError, NoCompiler
from ptxsim.occupancy import OccupancyError

DPI = 120  # of the picture: more take longer to draw
NUMBERS_TITLE = "All numbers"


@dataclass(frozen=True)
class View:
    """What is shown of one choice of settings.

    `picture`: a PNG file. `sentences`: the caption of the picture first. `lines`: the
    kernel's source with what each line costs. `numbers`: quantity, value and unit in words.
    """

    picture: bytes
    sentences: tuple[str, ...]
    lines: Heat
    numbers: tuple[tuple[str, str, str], ...]


def known_roofs() -> tuple[Ceilings | None, str]:
    """The roofs, or None and why there are none: without a record only the speed is missing."""
    try:
        return ceilings(), ""
    except (NoRecord, StaleRecord, BadRecord, CeilingsError) as reason:
        return None, f"No roofline: {reason}"


def view_of(kernel: Kernel, arch: str) -> View:
    """The view of a kernel, with registers and occupancy of `arch`. Raises what
    gemmlab.analysis.facts.of raises."""
    roofs, no_roofs = known_roofs()
    if kernel.rung.by_tcgen05:
        roofs, no_roofs = None, "No roofline: no roof of tcgen05 is recorded."
    facts = facts_of.of(kernel, arch)
    sentences = (caption_of(facts, roofs), *resources(facts), no_roofs)
    numbers = tuple(
        (quantity, "not recorded" if pandas.isna(value) else number(value), unit)
        for quantity, value, unit in facts.table().itertuples(index=False)
    )
    drawn = panels(facts, roofs, DPI)
    return View(drawn, tuple(filter(None, sentences)), Heat(facts.trace), numbers)


def refusal(
    rung: Rung, settings: Settings, moved: Collection[str], reason: str,
    among: Collection[Settings] | None = None,
) -> tuple[str, Settings]:  # fmt: skip
    """Why there is no picture of these settings, in sentences, and which to change: none if none
    help.

    moved: the parameters of the last move, which the nearest legal settings keep if they can.
    reason: a sentence. among: the settings of which there can be a picture here, where that is not
    all that are legal.
    """
    near = ladder.nearest(rung, settings, keep=moved, among=among)
    changes = {name: value for name, value in near.items() if value != settings[name]}
    words = f"No picture: {reason}"
    if changes:
        words += f" {_way_out(settings, changes, moved, among is None)}"
    return words, changes


def reason_of(rung: Rung, settings: Settings) -> str:
    """Why settings do not go together, as a sentence; empty where they do."""
    broken = rung.broken(settings)
    return f"{ladder.listed(settings)} {broken}." if broken else ""


def _way_out(settings: Settings, changes: Settings, moved: Collection[str], of_all: bool) -> str:
    """What the nearest settings change, and whether they keep the last move."""
    wanted = ladder.listed({name: settings[name] for name in moved})
    if changes.keys() & set(moved):
        nothing = "Nothing legal has" if of_all else "There is nothing here with"
        begin = f"{nothing} {wanted}. The nearest"
    else:
        here = "" if of_all else " that is here"
        begin = f"The nearest{f' with {wanted}' if moved else ''}{here}"
    steps = (f"from {name}={settings[name]} to {name}={value}" for name, value in changes.items())
    return f"{begin}: {', '.join(steps)}."


PICTURE_WIDTH = "780px"  # with sliders and caption it fits a window of 1400×1000
GRID = {  # as many columns of controls as there is room for
    "grid_template_columns": "repeat(auto-fit, minmax(165px, 1fr))", "grid_gap": "4px 12px",
    "align_items": "flex-end", "max_width": "960px", "overflow": "visible",
}  # fmt: skip
REASONS = (
    IllegalSetting, CompileError, NoCompiler, KernelMistake, LaunchError, OccupancyError,
    TimingError, VerificationError,
)  # fmt: skip


def lab(name: str, **settings: int) -> Lab:
    """Sliders for the tile parameters of the rung `name`, and a picture that follows them.

    settings: the first positions of the sliders; parameters that are not given start at their
    default. Raises LadderError for an unknown name, and IllegalSetting for a parameter or a value
    that the rung does not have. Values that do not go together get the answer that a move gets.
    """
    return Lab(ladder.find(name), settings)


class Lab(ipywidgets.VBox):
    """Sliders, a GPU architecture to choose, one picture, and the same as text.

    Settings that do not go together are answered with the reason instead of the picture, and with
    a button for the nearest ones that do. These keep what was moved last, if any legal settings do.
    What was shown once is kept.
    """

    def __init__(self, rung: ladder.Rung, settings: Settings):
        self.rung = rung
        self._views: dict[tuple, View] = {}
        self._setting = False  # several sliders at once: one picture, not one for each
        self._last = tuple(settings)  # the parameters of the last move
        self._offered: Settings = {}
        start = ladder.filled_in(rung, settings)
        self.sliders = {p.name: _slider(p, start[p.name]) for p in rung.parameters}
        simulated = rung.only_arch or SIMULATED_ARCH
        self.arch = ipywidgets.Dropdown(
            options=ARCHS if simulated in ARCHS else (simulated,), value=simulated,
            tooltip="GPU architecture", layout=ipywidgets.Layout(width="auto"),
        )  # fmt: skip
        self.message = ipywidgets.HTML()
        self.offer = ipywidgets.Button(layout=ipywidgets.Layout(display="none", width="auto"))
        self.picture = picture(PICTURE_WIDTH)
        self.caption, self.lines, self.numbers = (ipywidgets.HTML() for _ in range(3))
        titles = ("The kernel's lines and what they cost", NUMBERS_TITLE)
        details = ipywidgets.Accordion([self.lines, self.numbers], titles=titles)
        controls = [_control(p.name, p.meaning, self.sliders[p.name]) for p in rung.parameters]
        controls.append(_control("GPU", "whose registers and occupancy are shown", self.arch))
        grid = ipywidgets.GridBox(controls, layout=GRID)
        super().__init__([grid, self.message, self.offer, self.picture, self.caption, details])
        self.caption.add_class("gemmlab-caption")
        self.add_class("gemmlab-lab")
        for control in (*self.sliders.values(), self.arch):
            control.observe(self._moved, names="value")
        self.offer.on_click(lambda _button: self.choose(self._offered))
        self._show()

    def __repr__(self) -> str:
        sliders = ", ".join(self.sliders)
        return f"Sliders for {self.rung.name}: {sliders}. Run this cell to move them."

    @property
    def settings(self) -> Settings:
        """As the sliders stand."""
        return {name: slider.value for name, slider in self.sliders.items()}

    def choose(self, settings: Settings) -> None:
        """Move several sliders at once."""
        self._last = tuple(n for n, value in settings.items() if self.sliders[n].value != value)
        self._setting = True
        try:
            for name, value in settings.items():
                self.sliders[name].value = value
        finally:
            self._setting = False
        self._show()

    def _moved(self, change: dict[str, Any]) -> None:
        if self._setting:
            return
        moved = tuple(name for name, slider in self.sliders.items() if slider is change["owner"])
        self._last = moved or self._last  # another architecture is no move of a slider
        self._show()

    def _show(self) -> None:
        settings = self.settings
        if reason := reason_of(self.rung, settings):
            self._refuse(reason)
            return
        key = (*settings.values(), self.arch.value)
        try:
            if key not in self._views:
                self._say("Tracing …")
                kernel = load(self.rung.name, None, None, **settings)
                self._views[key] = view_of(kernel, self.arch.value)
        except REASONS as reason:
            uncompiled = isinstance(reason, NoCompiler)
            self._refuse(str(reason), prebuilt.all_settings(self.rung.name) if uncompiled else None)
            return
        except KeyboardInterrupt:
            self._say("Stopped. Move a slider to draw again.")
            raise
        view = self._views[key]
        self.picture.value, self.picture.layout.display = view.picture, None
        self.caption.value = _paper("<br>".join(map(html.escape, view.sentences)))
        self.lines.value, self.numbers.value = view.lines._repr_html_(), _numbers(view)
        self._make_offer({})
        self._say("")

    def _refuse(self, reason: str, among: Collection[Settings] | None = None) -> None:
        """No picture, the reason, and where sliders can cure it a button and what it changes."""
        self.picture.value, self.picture.layout.display = b"", "none"
        self.caption.value = self.lines.value = self.numbers.value = ""
        words, changes = refusal(self.rung, self.settings, self._last, reason, among)
        self._say(words, VERMILION)
        self._make_offer(changes)

    def _make_offer(self, changes: Settings) -> None:
        """Show the button of a way out; {} for none."""
        self._offered = changes
        self.offer.description = f"Use {ladder.listed(changes)}"
        self.offer.layout.display = None if changes else "none"

    def _say(self, words: str, colour: str = FAINT) -> None:
        self.message.value = status(words, colour)


def _slider(parameter: ladder.Parameter, value: int) -> ipywidgets.SelectionSlider:
    slider = ipywidgets.SelectionSlider(
        options=parameter.legal, value=value, continuous_update=False, tooltip=parameter.meaning,
        layout=ipywidgets.Layout(width="auto", margin="2px 2px 2px 8px"),  # half a handle
    )  # fmt: skip
    slider.add_class(f"gemmlab-{parameter.name}")
    return slider


def _control(name: str, meaning: str, control: ipywidgets.DOMWidget) -> ipywidgets.VBox:
    """Its name and meaning above, so that both have the whole width."""
    label = ipywidgets.HTML(
        '<div class="gemmlab-label" style="line-height: 1.25; white-space: normal">'
        f'<span style="font-weight: 600">{name}</span> {html.escape(meaning)}</div>'
    )
    layout = ipywidgets.Layout(overflow="visible", min_width="0")
    return ipywidgets.VBox([label, control], layout=layout)


def _numbers(view: View) -> str:
    cells = "".join(
        f'<tr><th scope="row" style="text-align: left; font-weight: normal">{quantity}</th>'
        f'<td style="text-align: right; padding: 0 0.6em">{value}</td><td>{unit}</td></tr>'
        for quantity, value, unit in view.numbers
    )
    return _paper(f"<table>{cells}</table>")


def _paper(content: str) -> str:
    return f'<div style="{PAPER}">{content}</div>'
