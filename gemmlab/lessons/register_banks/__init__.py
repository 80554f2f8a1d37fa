"""Code that only notebook 10 needs."""
