"""What notebook 04 alone needs."""
