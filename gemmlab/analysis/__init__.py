"""What follows from counts and times.

Of one kernel: facts, roofline, issue_slots, and counters, which sets recorded ones beside the
simulator's. Of two: comparison, judgement. Of parts of one: variants. known_differences: where the
H200 counts otherwise. What a trace or a record alone tells stands in traced/ and recorded/.
"""
