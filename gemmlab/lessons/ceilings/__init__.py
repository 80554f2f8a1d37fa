"""Code that only notebook 00, the roofs, needs."""
