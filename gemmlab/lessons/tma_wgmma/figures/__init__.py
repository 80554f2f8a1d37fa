"""Figures of this lesson."""
