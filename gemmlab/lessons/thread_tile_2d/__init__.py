"""Code that only notebook 05 needs."""
