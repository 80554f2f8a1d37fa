"""Arithmetic with the GPU's results, bit for bit."""
