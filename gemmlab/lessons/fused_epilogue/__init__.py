"""Code that only notebook 11 needs."""
