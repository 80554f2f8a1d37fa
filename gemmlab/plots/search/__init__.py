"""Figures of searches: the landscape of settings, what strategies find, what a model tells."""
