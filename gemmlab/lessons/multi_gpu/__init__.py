"""What notebook 21 alone needs."""
