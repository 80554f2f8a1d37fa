"""What follows from counts and times.

Of one kernel: facts, roofline, issue_slots, and counters, which sets recorded ones beside the
XX
"""
