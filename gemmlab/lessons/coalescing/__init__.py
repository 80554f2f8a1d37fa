"""Code that only notebook 02 needs."""
