"""Sliders for a search: strategy, budget and seed, and a picture of what it finds."""

from __future__ import annotations

import ipywidgets

from gemmlab.lessons.autotuning import tuner
from gemmlab.lessons.autotuning.figures import one_search
from gemmlab.lessons.autotuning.space import recorded
from gemmlab.notebook.widgets import picture, status
from gemmlab.records.runs import LARGE

SEEDS = 50


class SearchLab(ipywidgets.VBox):
    """Searches of the recorded sweep of a rung: a strategy to choose, sliders for budget and seed,
    one picture, and the same as text. Raises NoRecord."""

    def __init__(self, name: str) -> None:
        self.known = known = recorded(name, LARGE)
        self.strategy = ipywidgets.Dropdown(
            options=list(tuner.STRATEGIES), value="random", description="strategy"
        )
        most = len(known.times_ms)
        self.budget = ipywidgets.IntSlider(min(20, most), 1, most, description="budget")
        self.seed = ipywidgets.IntSlider(0, 0, SEEDS - 1, description="seed")
        self.message = ipywidgets.HTML()
        self.picture = picture()
        self.controls = (self.strategy, self.budget, self.seed)
        super().__init__([ipywidgets.HBox(self.controls), self.message, self.picture])
        self.add_class("gemmlab-search-lab")
        for control in self.controls:
            control.continuous_update = False
            control.observe(self._show, names="value")
        self._show()

    def __repr__(self) -> str:
        return (
            f"Sliders for a search of {self.known.space.rung.name} at {self.known.space.problem}: "
            "strategy, budget, seed. Run this cell to move them."
        )

    def _show(self, _change=None) -> None:
        search = tuner.replay(self.known, self.strategy.value, self.budget.value, self.seed.value)
        figure = one_search(search)
        self.picture.value = figure.png()
        self.message.value = status(figure.caption)
