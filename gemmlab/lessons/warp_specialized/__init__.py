"""Code that only notebook 17 needs."""
