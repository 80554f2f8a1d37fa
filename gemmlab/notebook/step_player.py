"""The step player: one block of a kernel walks along K, and a slider says how far."""

from __future__ import annotations

import io

from gemmlab.analysis import k_steps
from gemmlab.kernel.arguments import ArgumentError
from gemmlab.kernel.kernel import Kernel, KernelMistake
from gemmlab.ladder import IllegalSetting, Workspace
from gemmlab.notebook.widgets import Player
from gemmlab.plots import step
from gemmlab.plots.style import VERMILION, shape_label
from ptxsim import LaunchError

DPI = 130  # of the picture: sharp enough, and quickly drawn
BLOCKS = 2  # along the rows and the columns of C, where no size is given
STEPS = 4  # along K
MOST = 2**19  # elements of A, B and C: more are too fine to see, and frames hold them all
INTERVAL = 1500  # milliseconds from frame to frame
BLOCK = (0, 0, 0)
REASONS = (ArgumentError, IllegalSetting, KernelMistake, LaunchError, ValueError)


def step_player(
    kernel: Kernel, m: int | None = None, n: int | None = None, k: int | None = None
) -> StepPlayer:
    """A slider through the frames of block (0, 0, 0) of an m×n×k product, to play or to move.

    Sizes that are not given are those of two by two blocks and four steps along K. What cannot be
    traced or followed is said instead of the picture.
    """
    rows, columns = kernel.rung.tile(kernel.settings)
    along = kernel.settings.get("BK", 1)
    usual = (BLOCKS * rows, BLOCKS * columns, STEPS * along)
    given = zip((m, n, k), usual, strict=True)
    return StepPlayer(kernel, *(default if size is None else size for size, default in given))


class StepPlayer(Player):
    """`slider` chooses the frame, from 1 on; `picture` shows it, `caption` says it in words.

    `frames`: as gl.k_steps.of gives, none where they cannot be made. A frame is drawn once.
    """

    def __init__(self, kernel: Kernel, m: int, n: int, k: int):
        super().__init__("frame", "which frame of the block's way along K", INTERVAL)
        self.frames: list[k_steps.Frame] = []
        self._pictures: dict[int, bytes] = {}
        self._kernel_name = kernel.name
        try:
            self.frames = _frames(kernel, m, n, k)
        except REASONS as reason:
            self.say(f"No picture: {reason}", VERMILION)
            self.picture.layout.display = self.controls.layout.display = "none"
            return
        # Kernel, shape and block; the same for all frames, so that none is higher than another.
        shape = shape_label(m, n, k)
        self._words = f"{kernel} at {shape}, followed through the trace of block {BLOCK}."
        self.end_at(len(self.frames))
        self.show()

    def __repr__(self) -> str:
        return f"Step player for {self._kernel_name}. Run this cell to play it."

    def show(self) -> None:
        number = self.slider.value - 1
        self.picture.value = self.drawn(number)
        self.say(self.words_of(number))

    def drawn(self, number: int) -> bytes:
        """A frame, from 0 on, as a PNG file."""
        if number not in self._pictures:
            drawn = io.BytesIO()
            figure = step(self.frames, number, caption=self._words)
            figure.savefig(drawn, format="png", dpi=DPI, pil_kwargs={"compress_level": 1})
            self._pictures[number] = drawn.getvalue()
        return self._pictures[number]

    def words_of(self, number: int) -> str:
        """The same in words."""
        return f"Frame {number + 1} of {len(self.frames)}. {self.frames[number].caption}"


def _frames(kernel: Kernel, m: int, n: int, k: int) -> list[k_steps.Frame]:
    """The frames of the first block. Raises REASONS; ValueError for wrong sizes."""
    if 0 in (m, n, k):
        raise ValueError("there is nothing to multiply where a size is 0.")
    if (elements := m * k + k * n + m * n) > MOST:
        raise ValueError(
            f"A, B and C have {elements:,} elements, at most {MOST:,} can be seen: "
            "choose a smaller m, n or k."
        )
    args = [arg for launch in kernel.rung.one_tile(kernel.settings) for arg in launch.args]
    waits = any(isinstance(arg, Workspace) for arg in args)  # for what other blocks leave there
    blocks = None if waits else [BLOCK]
    return k_steps.of(kernel.trace(m, n, k, blocks=blocks), BLOCK)
