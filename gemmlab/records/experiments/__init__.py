"""Single experiments that a notebook tells of, each measured, kept and replayed by one module.

chains, pitfalls: of 00; l1_passes: of 01; fma_order: of 10; epilogues: the kernels of 11, and
epilogue_timing, which measures them; joins: of 12; batches: of 13; mma_steps, mma_types: of 15;
wgmma_ceilings, hopper_steps, hopper_timeline, power: of 16 to 18; multi_gpu: of 21.
"""
