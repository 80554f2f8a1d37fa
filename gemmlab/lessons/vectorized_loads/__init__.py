"""Code that only notebook 06 needs."""
