"""Code that only notebook 18 needs."""
