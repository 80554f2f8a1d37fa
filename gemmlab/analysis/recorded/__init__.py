"""What follows from records alone.

gains: factors between rungs; sizes: rungs over sizes; tile_steps: cycles and instructions of a step
along K; stalls: what warps waited for; fma_orders: what orders of multiply-adds, loads and waits
cost; epilogue_costs; joins: ways to join parts of K; cuts: what cutting K gains; thin: products of
few rows or columns under the roof of a copy; batch_times: ways to a batch; chosen: what gl.matmul
takes.
"""
