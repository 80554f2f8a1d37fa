"""What notebook 20 alone needs."""
