"""What notebook 19 alone needs."""
