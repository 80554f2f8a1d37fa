"""Rungs that stand on the ladder while their sweep is still to come."""

AWAITED = frozenset({"16_tma_wgmma", "18_persistent"})
