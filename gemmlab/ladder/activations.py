"""The activations that rung 11 can apply to an element of C before it stores it, in float64.

GELU, x times the probability that a normal variable is below x, has two forms (D. Hendrycks,
K. Gimpel, "Gaussian error linear units", 2016): the exact one by erf, and one by tanh near to it.
"""

import math
from typing import Any

import numpy as np

ACTIVATIONS = ("none", "ReLU", "GELU by tanh", "GELU by erf")
"""By the value of the kernel's parameter ACTIVATION."""

STEEPEST_GELU = 1.13  # no slope of either form is larger
# An evaluation in float32 is off by up to this many times 2**-24 * |x|. The largest part is that of
# erf by its short formula: 2.5 of its own, 14 by the roundings of t, which move the sum up to 3.5
# times as much, 5 in the sum, 5 in the exponential. Half of that counts. Three more are lost when
# the factors are multiplied. By tanh, or with CUDA's erff, less is lost.
GELU_ROUNDINGS = 16

_erf = np.frompyfunc(math.erf, 1, 1)


def activate(x: Any, activation: str) -> Any:
    """The activation of every element of a float64 array. NaN stays NaN, as in all of them. Raises
    ValueError for an activation that is none of ACTIVATIONS."""
    if activation == "none":
        return x
    if activation == "ReLU":
        return np.where(x < 0, 0.0, x)
    if activation == "GELU by tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    if activation == "GELU by erf":
        return 0.5 * x * (1 + _erf(x / math.sqrt(2)).astype(np.float64))
    raise ValueError(f"there is no activation {activation!r}; there are {', '.join(ACTIVATIONS)}")


def error_after(x: Any, error: Any, activation: str) -> Any:
    """How far the activation in float32 may be off, where its argument x is off by up to `error`.
    Arrays of one shape, float64. Underflow is left to the caller."""
    if activation in ("none", "ReLU"):
        return error
    return STEEPEST_GELU * error + GELU_ROUNDINGS * 2.0**-24 * (abs(x) + error)
