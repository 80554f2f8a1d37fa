"""Global, shared and local memory, and the accesses of lanes."""
