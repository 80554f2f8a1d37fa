"""Blocks of a cluster, registers divided among warps, policies of caches, kernels after others."""

from __future__ import annotations

from math import ceil

from ptxsim.threads import clusters
from ptxsim.types import SIGNED, Unknown

REGISTERS = range(24, 257, 8)  # that setmaxnreg may ask for
POLICY = 1 << 60
PRIORITIES = {"evict_unchanged": 0, "evict_first": 2, "evict_last": 4, "evict_normal": 6}


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


def op_createpolicy(w, instruction, target, *given):
    """The bits of a policy for the second-level cache, as on an NVIDIA H200; no result needs them.

    Of one for a range of addresses, and of one with a second priority, they are not known: 0.
    """
    form, *parts, _ = instruction.parts[1:]
    priorities = [part.removeprefix("L2::") for part in parts if part.startswith("L2::")]
    if form == "cvt":
        w.assign(target, w.value(given[0], SIGNED[8]), SIGNED[8], instruction)
        return
    if form not in ("fractional", "range") or not set(priorities) <= set(PRIORITIES):
        raise Unknown
    bits = 0
    if form == "fractional" and priorities[1:] in ([], ["evict_unchanged"]):
        share = float(given[0].name) if given else 1.0  # "0.5" is no number of PTX elsewhere
        bits = POLICY | PRIORITIES[priorities[0]] << 56 | max(0, ceil(16 * share) - 1) << 52
    w.assign(target, w.constant(SIGNED[8].type(bits)), SIGNED[8], instruction)


def op_griddepcontrol(w, instruction):
    """Kernels run one after the other."""
