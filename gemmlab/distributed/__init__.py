"""One product over several GPUs: who holds what, who sends what to whom, and after what.

A schedule is data, made in schedules: steps of each rank, each a product, a sum or a collective, on
a stream, after other steps. Read steps first. order says what happens before what, and finds races;
holdings says which elements each rank has.
Three run a schedule: in_turn in this process and by_processes in one process for each rank, both in
NumPy, with a kernel in the simulator (arithmetic); gpus on GPUs. clock times it on paper.
"""
