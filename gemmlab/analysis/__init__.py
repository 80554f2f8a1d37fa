"""What follows from counts and times.

Of one kernel: facts, roofline, issue_slots, and counters, which sets recorded ones beside the
simulator's. Of two: comparison, judgement. From a trace alone: k_steps, ring and, below them,
block_replay. From records: fma_orders, epilogue_costs. Of tensor cores: fragments.
known_differences: where the H200 counts otherwise.
"""
