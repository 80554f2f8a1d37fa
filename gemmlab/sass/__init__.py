"""The machine code of inner loops, read without a GPU.

Read loops first, which finds and analyses the loop of a kernel; inner_loop counts its issue slots,
view shows it.
"""

from .loops import analyse, listing, loop

__all__ = ["analyse", "listing", "loop"]
