"""What notebook 05 alone needs."""
