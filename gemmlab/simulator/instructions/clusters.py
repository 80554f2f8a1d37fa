"""Clusters of one block, registers divided among warps, and kernels that wait for others."""

from __future__ import annotations

from gemmlab.simulator.threads import clusters
from gemmlab.simulator.types import SIGNED, Unknown

REGISTERS = range(24, 257, 8)  # that setmaxnreg may ask for


def op_mapa(w, instruction, target, address, rank):
    """The same place in the shared memory of the cluster's block of that rank."""
    dtype = SIGNED[8 if instruction.parts[-1] == "u64" else 4]
    text = f"{w.use(clusters.same_place)}(lanes, {instruction.index}, {w.value(address, dtype)}, "
    text += f"{w.value(rank, SIGNED[4])}, {w.mask(instruction)})"
    w.assign(target, text, dtype, instruction)


def op_getctarank(w, instruction, target, address):
    w.assign(target, w.constant(SIGNED[4].type(0)), SIGNED[4], instruction)


def op_setmaxnreg(w, instruction, count):
    """How many registers a warp has, no result depends on."""
    if count.value not in REGISTERS:
        raise Unknown


def op_griddepcontrol(w, instruction):
    """Kernels run one after the other."""
