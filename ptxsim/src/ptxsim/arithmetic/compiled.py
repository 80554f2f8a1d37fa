"""The multiply-add as machine code, where numba is installed: the same bits, in less time.

multiply_add.py is the model, and all that is needed. It takes six or more passes over its operands,
each a call of NumPy; a processor's own fused multiply-add takes one. To load numba, and what it
compiled once, costs about a second, so that waits until this process has spent as much on NumPy's
way. Which NaN comes of two is left open, as NumPy leaves it.

The functions are those of machine_code.py. A ufunc takes one element after the other wherever an
operand is the same along an axis. `batch` takes as many as the processor can at once, and gives up
where a result is NaN or subnormal: then the ufunc does it again.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np

f4 = np.float32

A_CALL = 1 << 13  # elements that cost as much as calling NumPy for any
WORTH_IT = 1 << 28  # elements, calls included
MACHINE_CODE = "ptxsim.arithmetic.machine_code"

_done = 0


def function(name: str, size: int):
    """By name, a function for `size` numbers, or None if it is too early for machine code.

    "fma" and "fma_ftz": (float64 a, float64 b, float32 c, out=None) gives a * b + c. "f16", "bf16":
    (a, b, c, out) of uint16 patterns, which returns whether it could not: where numbers are
    infinite, or very large or small bfloat16.
    """
    global _done
    _done += size + A_CALL
    return _functions().get(name) if _done > WORTH_IT else None


def batch(name: str = "f32"):
    """machine_code.batch, or None as long as nothing else is done in machine code."""
    return _functions().get(f"batch of {name}") if _done > WORTH_IT else None


@cache
def _functions() -> dict[str, Any]:
    """By name; empty without numba. Ctrl-C waits."""
    from concurrent.futures import ThreadPoolExecutor  # here, for it takes time to load

    with ThreadPoolExecutor(1) as loader:  # signals interrupt the main thread alone
        try:
            code = loader.submit(import_module, MACHINE_CODE).result()
        except ImportError:  # numba is not there, or made for another NumPy
            return {}
    functions = {
        "fma": code.fma, "fma_ftz": code.fma_ftz,
        "f16": code.float16_fma, "bf16": code.bfloat16_fma, "batch of f32": code.batch,
    }  # fmt: skip
    if code.batch_of_halves:
        for name in ("f16", "bf16"):
            functions[f"batch of {name}"] = partial(code.batch_of_halves, is_float16=name == "f16")
    return functions
