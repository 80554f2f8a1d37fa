"""What notebook 16 alone needs."""
