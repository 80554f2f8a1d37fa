"""What notebook 13 alone needs."""
