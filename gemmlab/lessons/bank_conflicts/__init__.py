"""Code that only notebook 07 needs."""
