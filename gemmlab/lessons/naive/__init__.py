"""What notebook 01 alone needs."""
