"""What only a GPU can tell: times, counters, ceilings.

timing sets a kernel beside cuBLAS, in_turn launches the two, profiler has Nsight Compute count,
ceilings measures the roofs.
Nothing is kept here: see records.
"""
