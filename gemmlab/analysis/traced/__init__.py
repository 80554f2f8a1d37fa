"""What follows from a trace: block_replay plays one block again, instruction by instruction.

On it stand k_steps, frames along K; ring, the places of a ring of tiles; thread_reads, what one
thread reads at one k. accesses and requests look at single loads; fragments at what lanes hold.
work says which block computes what, and when; parts what joining parts of K moves.
"""
