"""Rungs that stand on the ladder while some of what belongs to them is still to come."""

# Measured step by step so far (hopper_steps.csv); code compiled ahead, runs and sweeps come next.
AWAITED = frozenset({"16_tma_wgmma", "17_warp_specialized", "18_persistent"})
