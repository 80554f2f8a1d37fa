"""The simulator by its name in this package: ptxsim, a distribution of its own."""

from ptxsim import *  # noqa: F403
from ptxsim import __all__ as __all__
