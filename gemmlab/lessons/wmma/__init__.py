"""Code that only notebook 14 needs."""
