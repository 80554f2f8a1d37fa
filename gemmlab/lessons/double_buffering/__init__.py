"""Code that only notebook 09 needs."""
