"""Checks for mistakes that hardware hides; checker says which are found and which are not."""
