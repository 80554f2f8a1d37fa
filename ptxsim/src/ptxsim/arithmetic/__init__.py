"""Numbers as the GPU makes them, bit for bit."""
