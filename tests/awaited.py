"""Rungs of which no sweep of the settings has been recorded."""

# Their settings are those of hopper_steps.csv, which has the steps towards them.
AWAITED = frozenset({"16_tma_wgmma", "17_warp_specialized", "18_persistent"})
