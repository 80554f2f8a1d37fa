"""What makes parts of the repository, and is in no wheel: run from a checkout.

site is the series as a static site, readme the ladder's pictures and README.md's table, lock the
pinned versions.
"""
