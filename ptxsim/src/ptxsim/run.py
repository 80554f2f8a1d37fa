"""What a launch did: counts, findings, and every access of a block for whoever asks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ptxsim import machine
from ptxsim.contraction import Note
from ptxsim.counting import BoxCopy, FactorRead, Recorded, WarpAccess
from ptxsim.errors import LaunchError
from ptxsim.grid import run as run_blocks
from ptxsim.machine import Finding
from ptxsim.metrics import LineCount, Totals


@dataclass(frozen=True)
class Step:
    """One instruction as a warp executed it, and what it asked of memory, mostly nothing.

    `at`: when, in the order in which the simulator executed the block; warps that executed it
    together have it in common.
    """

    opcode: str
    line: int
    at: int
    accesses: tuple[WarpAccess, ...]
    boxes: tuple[BoxCopy, ...]


@dataclass
class Run:
    """What a launch did.

    `counters`: Nsight Compute's metric names and their totals, and `lines`: the same traffic by
    source line and array; both empty unless `count=True` was asked for. A name that the simulator
    does not count is a KeyError that has the nearest names. `findings`: mistakes that were met,
    empty for a correct kernel; races in global memory are not among them, for nothing looks for
    these. `notes`: lines whose results may differ from a GPU's in the last bits; a correct kernel
    may have them, too. `elapsed_s`: how long the blocks took to simulate, on the wall or in
    processor time, whichever is less. `multiply_adds`: of float32 units and tensor cores together,
    counted with the rest.
    """

    counters: Totals
    lines: list[LineCount]
    findings: list[Finding]
    notes: list[Note]
    elapsed_s: float
    multiply_adds: int = 0
    _again: machine.PreparedLaunch | None = field(repr=False, default=None)
    _seen: dict = field(repr=False, default_factory=dict)  # block -> Recorded

    def accesses(
        self, block: machine.Triple = (0, 0, 0), warp: int | None = None
    ) -> list[WarpAccess]:
        """Every memory access of one block, or of one of its warps, in the order of execution.

        The block is run once more for this, on copies of the arrays as the launch left them, unless
        it was the last of those that `blocks` named.
        """
        accesses = self._recorded(block).accesses
        return [access for access in accesses if warp is None or access.warp == warp]

    def boxes(self, block: machine.Triple = (0, 0, 0), warp: int | None = None) -> list[BoxCopy]:
        """What threads of one block, or of one of its warps, had copied by tensor maps, in order.

        Found as `accesses` is.
        """
        boxes = self._recorded(block).boxes
        return [box for box in boxes if warp is None or box.warp == warp]

    def factors(
        self, block: machine.Triple = (0, 0, 0), group: int | None = None
    ) -> list[FactorRead]:
        """What the wgmmas of one block, or of one of its warpgroups, read of shared memory.

        A product reads A, where that is not in registers, and then B. Found as `accesses` is.
        """
        factors = self._recorded(block).factors
        return [one for one in factors if group is None or one.group == group]

    def opcode(self, access: WarpAccess) -> str:
        """Of the instruction that made an access, such as "ld.global.f32"."""
        return self._kept().kernel.instructions[access.index].opcode

    def instructions(self, block: machine.Triple = (0, 0, 0), warp: int = 0) -> list[Step]:
        """What one warp executed, in order. Found as `accesses` is."""
        seen, instructions = self._recorded(block), self._kept().kernel.instructions
        accesses, boxes, stretches = seen.accesses, seen.boxes, seen.stretches
        steps = []
        for at, stretch in enumerate(stretches):
            if not stretch.warps[warp]:
                continue
            after = stretches[at + 1] if at + 1 < len(stretches) else None
            end_access, end_box = (after.first_access, after.first_box) if after else (None, None)
            own = [one for one in accesses[stretch.first_access : end_access] if one.warp == warp]
            copies = [one for one in boxes[stretch.first_box : end_box] if one.warp == warp]
            for index in range(stretch.start, stretch.end):
                one = instructions[index]
                made = tuple(access for access in own if access.index == index)
                brought = tuple(box for box in copies if box.index == index)
                steps.append(Step(one.opcode, one.line, at, made, brought))
        return steps

    def _recorded(self, block: machine.Triple) -> Recorded:
        check_block(block, self._kept().grid)
        block = block[0], block[1], block[2]  # not a list
        if block not in self._seen:
            _, _, self._seen[block] = run_blocks(self._kept(), [block], record=block)
        return self._seen[block]

    def _kept(self) -> machine.PreparedLaunch:
        if self._again is None:
            raise LaunchError("accesses() needs a run with count=True")
        return self._again


def check_block(block: machine.Triple, grid: machine.Triple) -> None:
    if np.shape(block) != (3,) or any(not 0 <= i < n for i, n in zip(block, grid, strict=True)):
        raise LaunchError(f"block {block} is not in the grid {grid}: name it as (x, y, z)")
