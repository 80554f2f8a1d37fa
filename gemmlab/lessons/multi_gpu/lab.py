"""Sliders for a product over several GPUs: the model's timeline follows them."""

from __future__ import annotations

from dataclasses import replace

import ipywidgets

from gemmlab.ladder import Precision, Problem
from gemmlab.lessons.multi_gpu.figures import rank_timeline
from gemmlab.lessons.multi_gpu.measure import CHUNKS, CUBE, MAKERS
from gemmlab.lessons.multi_gpu.schedules import one_rank
from gemmlab.lessons.multi_gpu.timeline import Machine, modelled
from gemmlab.notebook.lab import GRID
from gemmlab.notebook.widgets import picture, status

SIZES = tuple(2**n for n in range(9, 16))  # the least has a row for each rank and chunk
COUNTS = (1, 2, 3, 4, 6, 8, 16, 32)
CHUNK_COUNTS = (1, 2, 4, 8, 16)
LINKS = (8, 16, 32, 64, 128, 225, 300, 450, 900)  # GB/s one way
NETWORKS = (5, 12.5, 25, 50, 100)


class RanksLab(ipywidgets.VBox):
    """Sliders for schedule, GPUs, chunks, shape and links; the picture is the model's timeline.

    `controls` by name; those of the links begin at the rates of `machine`, of LINKS and NETWORKS.
    """

    def __init__(self, machine: Machine, precision: Precision):
        self._machine, self._precision = machine, precision
        link, network = machine.link_bytes_per_second / 1e9, machine.network_bytes_per_second / 1e9
        values = {
            "schedule": (tuple(MAKERS), next(iter(MAKERS))), "GPUs": (COUNTS, 2),
            "chunks": (CHUNK_COUNTS, CHUNKS), "M": (SIZES, CUBE.m), "N": (SIZES, CUBE.n),
            "K": (SIZES, CUBE.k), "link, GB/s": (LINKS, link),
            "between hosts, GB/s": (NETWORKS, network),
        }  # fmt: skip
        self.controls = {
            name: ipywidgets.SelectionSlider(
                options=options, value=value, description=name, continuous_update=False,
                style={"description_width": "initial"},
            )
            for name, (options, value) in values.items()
        }  # fmt: skip
        self.picture, self.caption = picture(), ipywidgets.HTML()
        controls = ipywidgets.GridBox(list(self.controls.values()), layout=GRID)
        super().__init__([controls, self.picture, self.caption])
        self.add_class("gemmlab-lab")
        for control in self.controls.values():
            control.observe(self._show, names="value")
        self._show()

    def __repr__(self) -> str:
        return f"Sliders for a model: {', '.join(self.controls)}. Run this cell to move them."

    def _show(self, _change=None) -> None:
        at = {name: control.value for name, control in self.controls.items()}
        machine = replace(
            self._machine, link_bytes_per_second=1e9 * at["link, GB/s"],
            network_bytes_per_second=1e9 * at["between hosts, GB/s"],
        )  # fmt: skip
        problem = Problem(at["M"], at["N"], at["K"])
        schedule = MAKERS[at["schedule"]](problem, at["GPUs"], chunks=at["chunks"])
        run = modelled(schedule, machine, self._precision)
        alone = modelled(one_rank(problem), machine, self._precision).ms
        figure = rank_timeline(run)
        moved = max(
            schedule.received_bytes(rank, self._precision) for rank in range(schedule.ranks)
        )
        sentence = (
            f"{figure.caption} One GPU takes {alone:,.3g} ms: {alone / run.ms:.2f} times as "
            f"long, {100 * alone / run.ms / schedule.ranks:.1f} % of {schedule.ranks} times one. "
            f"{moved / 1e9:,.3g} GB come to the GPU that gets most."
        )
        self.picture.value, self.caption.value = figure.png(), status(sentence)
