"""Positions of threads in a program, and how they meet: warps, barriers, clusters."""
