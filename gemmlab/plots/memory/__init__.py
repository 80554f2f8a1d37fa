"""Figures of what threads touch: maps, banks, tiles, steps."""
