"""What notebook 22 alone needs."""
