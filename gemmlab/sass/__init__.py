"""The machine code of inner loops, read without a GPU.

Read loops first, which finds, analyses and shows the loop of a kernel; inner_loop counts its issue
slots.
"""

from .loops import analyse, listing, loop

__all__ = ["analyse", "listing", "loop"]
