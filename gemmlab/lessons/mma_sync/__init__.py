"""What notebook 15 alone needs."""
