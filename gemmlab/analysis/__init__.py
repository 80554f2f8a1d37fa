"""Tables and facts from counts, times and traces.

facts: of one kernel, or of two side by side. counters: recorded ones beside the simulator's.
roofline. recorded: tables of records. block_replay replays one block from its trace, instruction by
instruction, and says what one thread of it reads; k_steps uses it to show frames along K.
"""
