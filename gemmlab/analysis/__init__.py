"""What follows from counts, times and traces.

facts: of one kernel, or two side by side. judgement: an edited kernel beside its rung. counters:
recorded ones beside the simulator's; roofline; known_differences: where the H200 counts otherwise.
recorded: tables of records. block_replay plays one block again from its trace, instruction by
instruction, and says what one thread of it reads; on it stands k_steps, frames along K.
"""
