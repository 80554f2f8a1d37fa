"""What notebook 07 alone needs."""
