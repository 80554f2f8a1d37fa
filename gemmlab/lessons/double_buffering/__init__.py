"""What notebook 09 alone needs."""
