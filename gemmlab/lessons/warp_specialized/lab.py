"""The ring player: producer and consumers of a block at work, moment by moment."""

from __future__ import annotations

import ipywidgets

from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import legal_settings
from gemmlab.lessons.warp_specialized import turns as traced
from gemmlab.lessons.warp_specialized.figures import moments, turns
from gemmlab.loading import load
from gemmlab.notebook.widgets import Player

STAGES = "STAGES"
STEPS = 8  # along K
INTERVAL = 1200  # milliseconds from moment to moment


def ring_player(name: str, **settings: int) -> RingPlayer:
    """Sliders for STAGES and for the moment, of one block of `name` and eight steps along K."""
    return RingPlayer(load(name, **settings))


class RingPlayer(Player):
    """`stages` chooses how many pairs of tiles there are, `slider` the moment."""

    def __init__(self, kernel: Kernel):
        self._name, self._settings = kernel.name, dict(kernel.settings)
        self._turns: dict[int, traced.Turns] = {}
        self.stages = ipywidgets.SelectionSlider(
            options=self.choices(kernel), value=kernel.settings[STAGES], description=STAGES,
            continuous_update=False, tooltip="pairs of tiles in shared memory",
        )  # fmt: skip
        super().__init__("moment", "how far the block has come", INTERVAL, self.stages)
        self.stages.observe(self._begin, names="value")
        self._begin()

    def __repr__(self) -> str:
        return f"Ring player for {self._name}. Run this cell to play it."

    @staticmethod
    def choices(kernel: Kernel) -> tuple[int, ...]:
        """The values of STAGES that go with the kernel's other settings."""
        others = {key: value for key, value in kernel.settings.items() if key != STAGES}
        legal = legal_settings(kernel.rung)
        return tuple(sorted({each[STAGES] for each in legal if others.items() <= each.items()}))

    def _begin(self, _change=None) -> None:
        self.end_at(self.moments(self.stages.value))
        self.show()

    def moments(self, stages: int) -> int:
        """How many there are with so many stages."""
        if stages not in self._turns:
            # On one SM, so that a block that shares tiles with others has a whole one.
            kernel = load(self._name, **self._settings | {STAGES: stages}).scheduled_for(1)
            rows, columns = kernel.rung.tile(kernel.settings)
            trace = kernel.trace(rows, columns, STEPS * traced.STEP, blocks=[(0, 0, 0)])
            self._turns[stages] = traced.of(trace)
        return len(moments(self._turns[stages]))

    def show(self) -> None:
        stages, shown = self.stages.value, self.slider.value
        self.picture.value = self.drawn(stages, shown)
        self.say(self.description(stages, shown))

    def drawn(self, stages: int, shown: int) -> bytes:
        """A moment, from 1 on, as a PNG file."""
        return turns(self._turns[stages], shown=shown).png()

    def description(self, stages: int, shown: int) -> str:
        every = moments(self._turns[stages])
        words = "; ".join(every[shown - 1]).replace("; warpgroup 1", ", and warpgroup 1")
        return f"Moment {shown} of {len(every)}: {words}."
