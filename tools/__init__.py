"""Programs that make parts of the repository; they run from a checkout and are in no wheel.

site is the series as a static site, readme the ladder's pictures and the generated parts of pages,
lock the pinned versions.
"""
