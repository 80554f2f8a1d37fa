"""Code that only notebook 21 needs."""
