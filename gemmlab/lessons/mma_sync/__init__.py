"""Code that only notebook 15 needs."""
