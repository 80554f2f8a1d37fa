"""What follows from counts, times and traces.

Of one kernel: facts, roofline, and counters, which sets recorded ones beside the simulator's. Of
two: comparison, judgement. known_differences: where the H200 counts otherwise. recorded: tables of
records. block_replay plays one block again from its trace, instruction by instruction, and says
what one thread of it reads; on it stands k_steps, frames along K.
"""
