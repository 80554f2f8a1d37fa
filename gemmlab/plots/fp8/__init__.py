"""What 8-bit floats hold, what their scales reach, how their sums are added, and what it brings."""
