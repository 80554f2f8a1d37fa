"""For hypothesis: a slow machine is no failure."""

from hypothesis import settings

settings.register_profile("ptxsim", deadline=None)
settings.load_profile("ptxsim")
