"""Code that only notebook 19 needs."""
