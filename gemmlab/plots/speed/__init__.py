"""Figures of speed: ladders, rooflines, sweeps."""
