"""What notebook 06 alone needs."""
