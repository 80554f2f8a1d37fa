"""What notebook 03 alone needs."""
