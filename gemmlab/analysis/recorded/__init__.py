"""What follows from records alone.

gains: factors between rungs; sizes: rungs over sizes; tile_steps: cycles and instructions of a step
along K; fma_orders: what orders of multiply-adds, loads and waits cost; epilogue_costs.
"""
