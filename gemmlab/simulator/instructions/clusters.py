"""Blocks of a cluster, registers divided among warps, policies of caches, kernels after others."""

from __future__ import annotations

from gemmlab.simulator.threads import clusters
from gemmlab.simulator.types import SIGNED, Unknown

REGISTERS = range(24, 257, 8)  # that setmaxnreg may ask for


def op_mapa(w, instruction, target, address, rank):
    """The same place in the shared memory of the cluster's block of that rank."""
    dtype = SIGNED[8 if instruction.parts[-1] == "u64" else 4]
    text = f"{w.use(clusters.in_block)}(lanes, {instruction.index}, {w.value(address, dtype)}, "
    text += f"{w.value(rank, SIGNED[4])}, {w.mask(instruction)})"
    w.assign(target, text, dtype, instruction)


def op_getctarank(w, instruction, target, address):
    dtype = SIGNED[4 if "shared::cluster" in instruction.parts else 8]
    text = f"{w.use(clusters.rank_of)}(lanes, {w.value(address, dtype)})"
    w.assign(target, text, SIGNED[4], instruction)


def op_setmaxnreg(w, instruction, count):
    """How many registers a warp has, no result depends on; checks add them up."""
    _, how, *_ = instruction.parts
    if count.value not in REGISTERS or how not in ("inc", "dec"):
        raise Unknown
    grows = how == "inc"
    w.lines.append(
        f"lanes.set_registers({instruction.index}, {count.value}, {grows}, {w.mask(instruction)})"
    )


def op_griddepcontrol(w, instruction):
    """Kernels run one after the other."""
