"""The machine code of inner loops, read without a GPU.

Read loops first, which finds and analyses the loop of a kernel; inner_loop counts its issue slots,
listings keeps what comes with the project, view shows it. rewriting makes another loop of the same
instructions; effects says what they compute, hazards what they may not do.
"""

from .loops import analyse, listing, loop

__all__ = ["analyse", "listing", "loop"]
