"""For all tests: a slow machine is no failure, so hypothesis sets no time limit to an example."""

from hypothesis import settings

settings.register_profile("gemmlab", deadline=None)
settings.load_profile("gemmlab")
