"""What follows from counts, times and traces.

Of one kernel: facts, roofline, issue_slots, and counters, which sets recorded ones beside the
simulator's. Of two: comparison, judgement. known_differences: where the H200 counts otherwise.
recorded: what records alone tell. block_replay plays one block again from its trace, instruction by
instruction; on it stand k_steps, frames along K, and thread_reads, what one thread reads at one k.
"""
