"""Code that only notebook 16 needs."""
