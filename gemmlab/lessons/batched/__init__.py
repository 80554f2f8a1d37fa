"""Code that only notebook 13 needs."""
