"""What notebook 02 alone needs."""
