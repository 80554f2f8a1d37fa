"""Mistakes that hardware hides: checker says what is found and what is not."""
