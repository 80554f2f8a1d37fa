"""Where threads stand, and how they meet: warps, barriers, clusters."""
