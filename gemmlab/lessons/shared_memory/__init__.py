"""Code that only notebook 03 needs."""
