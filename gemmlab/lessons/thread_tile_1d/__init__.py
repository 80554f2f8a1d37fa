"""Code that only notebook 04 needs."""
