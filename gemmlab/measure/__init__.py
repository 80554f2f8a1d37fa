"""What only a GPU can tell: times, counters, ceilings.

timing measures a kernel beside cuBLAS, in_turn launches the two, profiler has Nsight Compute count,
ceilings measures the roofs, and power what a limit of power leaves of them.
Nothing is kept here: see records.
"""
