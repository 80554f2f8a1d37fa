"""Searching for the fastest settings: strategies, what counts tell before, rules for new shapes.

Read space first, for what is searched; then tuner, which gives it to Kernel Tuner's strategies.
"""
