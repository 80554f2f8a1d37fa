"""Mistakes that hardware hides: races, uninitialised reads, lost barriers.

checker says what is found and what is not; races, clocks and shadow are how.
"""
