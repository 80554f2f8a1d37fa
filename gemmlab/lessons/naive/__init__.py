"""Code that only notebook 01 needs."""
