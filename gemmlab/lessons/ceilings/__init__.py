"""What notebook 00: the roofs alone needs."""
