"""What the GPU's own instructions say of a kernel: its inner loop, slot by slot, without a GPU."""

from __future__ import annotations

from .disassembly import disassemble, parse
from .issue_slots import Loop, inner_loop


def analyse(cubin: bytes, entry: str | None = None) -> Loop:
    """The inner loop of kernel `entry` in a cubin, of the only kernel if None.

    Raises NoDisassembler, and NoListing where there is no such kernel or no such loop.
    """
    return inner_loop(parse(disassemble(cubin), entry))
