"""Code that only notebook 08 needs."""
