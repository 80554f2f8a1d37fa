"""What notebook 23 alone needs: float32 products by tensor cores of 16 bits."""
