"""Code that only notebook 12 needs."""
