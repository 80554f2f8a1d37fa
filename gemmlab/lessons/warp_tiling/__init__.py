"""What notebook 08 alone needs."""
