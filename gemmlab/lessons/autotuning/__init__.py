"""Code that only notebook 20 needs."""
