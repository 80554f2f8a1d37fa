"""Rungs that stand on the ladder while their sweep is still to come."""

# Their settings are those of hopper_steps.csv, which has the steps towards them.
AWAITED = frozenset({"16_tma_wgmma", "18_persistent"})
