"""Code that only notebook 22 needs."""
