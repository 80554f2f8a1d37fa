"""The ring player: producer and consumers of a block at work, moment by moment."""

from __future__ import annotations

import re

import ipywidgets

from gemmlab.kernel.kernel import Kernel, KernelMistake
from gemmlab.ladder import IllegalSetting, legal_settings
from gemmlab.lessons.warp_specialized import turns as traced
from gemmlab.lessons.warp_specialized.figures import moments, turns
from gemmlab.loading import load
from gemmlab.notebook.labs.panel import picture, status
from gemmlab.plots.style import FAINT, VERMILION
from gemmlab.simulator import LaunchError

STAGES = "STAGES"
STEPS = 8  # along K
INTERVAL = 1200  # milliseconds from moment to moment
REASONS = (IllegalSetting, KernelMistake, LaunchError, ValueError)


def ring_player(name: str, **settings: int) -> RingPlayer:
    """Sliders for STAGES and for the moment, of one block of rung `name` and eight steps along K.

    settings: of the rung, the others its defaults. Raises what gl.load raises.
    """
    return RingPlayer(load(name, **settings))


class RingPlayer(ipywidgets.VBox):
    """`stages` chooses how many pairs of tiles there are, `slider` the moment; `picture` shows it.

    What cannot be traced is said in place of the picture. A picture is drawn once.
    """

    def __init__(self, kernel: Kernel):
        self._name, self._settings = kernel.name, dict(kernel.settings)
        self._found: dict[int, traced.Turns] = {}
        self._pictures: dict[tuple[int, int], bytes] = {}
        self.picture, self.caption = picture(), ipywidgets.HTML()
        self.stages = ipywidgets.SelectionSlider(
            options=self.choices(kernel), value=kernel.settings[STAGES], description=STAGES,
            continuous_update=False, tooltip="pairs of tiles in shared memory",
        )  # fmt: skip
        self.slider = ipywidgets.IntSlider(
            value=1, min=1, max=1, description="moment", continuous_update=False,
            tooltip="how far the block has come",
        )  # fmt: skip
        self.play = ipywidgets.Play(value=1, min=1, max=1, interval=INTERVAL)
        ipywidgets.jslink((self.play, "value"), (self.slider, "value"))
        controls = ipywidgets.HBox([self.stages, self.play, self.slider])
        super().__init__([controls, self.picture, self.caption])
        self.stages.observe(self._begin, names="value")
        self.slider.observe(self._show, names="value")
        self._begin()

    def __repr__(self) -> str:
        return f"Ring player for {self._name}. Run this cell to play it."

    @staticmethod
    def choices(kernel: Kernel) -> tuple[int, ...]:
        """The values of STAGES that go with the kernel's other settings."""
        others = {key: value for key, value in kernel.settings.items() if key != STAGES}
        legal = legal_settings(kernel.rung)
        return tuple(sorted({one[STAGES] for one in legal if others.items() <= one.items()}))

    def _begin(self, _change=None) -> None:
        stages = self.stages.value
        try:
            last = self.moments(stages)
        except REASONS as reason:
            self.caption.value = status(f"No picture: {reason}", VERMILION)
            return
        self.slider.max = self.play.max = last
        self.slider.value = min(self.slider.value, last)
        self._show()

    def moments(self, stages: int) -> int:
        """How many there are with so many stages. Raises REASONS."""
        if stages not in self._found:
            self._found[stages] = self._traced(stages)
        return len(moments(self._found[stages]))

    def _traced(self, stages: int) -> traced.Turns:
        # On one SM, so that a block that shares tiles with others has a whole one.
        kernel = load(self._name, **self._settings | {STAGES: stages}).scheduled_for(1)
        rows, columns = kernel.rung.tile(kernel.settings)
        block = (0, 0, 0)
        trace = kernel.trace(rows, columns, STEPS * traced.STEP, blocks=[block])
        return traced.of(trace, block)

    def _show(self, _change=None) -> None:
        stages, shown = self.stages.value, self.slider.value
        if stages not in self._found:
            return
        self.picture.value = self.drawn(stages, shown)
        self.caption.value = status(self.told(stages, shown), FAINT)

    def drawn(self, stages: int, shown: int) -> bytes:
        """A moment, from 1 on, as a PNG file."""
        if (stages, shown) not in self._pictures:
            self._pictures[stages, shown] = turns(self._found[stages], shown=shown).png()
        return self._pictures[stages, shown]

    def told(self, stages: int, shown: int) -> str:
        """The same in words."""
        told = moments(self._found[stages])
        words = re.sub("; (warpgroup 1|warp 4)", r", and \1", "; ".join(told[shown - 1]))
        return f"Moment {shown} of {len(told)}: {words}."
