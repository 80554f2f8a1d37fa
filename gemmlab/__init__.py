"""GEMM Lab: matrix-product kernels to read, run, count and time, with a GPU or without one.

import gemmlab as gl
kernel = gl.load("02_coalescing")
C = kernel(A, B)
kernel.verify()
"""

from importlib import import_module

from . import simulator
from .compiler import CompileError
from .device import device
from .heat import heat
from .kernel import ArgumentError, Kernel, KernelMistake, from_source
from .ladder import CEILINGS, RUNGS, IllegalSetting, LadderError
from .loading import load
from .verify import VerificationError, error_bound, random_matrix, reference

__version__ = "0.1.0"

__all__ = [
    "CEILINGS",
    "RUNGS",
    "ArgumentError",
    "CompileError",
    "IllegalSetting",
    "Kernel",
    "KernelMistake",
    "LadderError",
    "VerificationError",
    "ceilings",
    "compare",
    "counted",
    "device",
    "epilogue",
    "error_bound",
    "exercises",
    "facts",
    "fma_order",
    "from_source",
    "heat",
    "lab",
    "load",
    "overview",
    "path",
    "plots",
    "random_matrix",
    "reference",
    "sass",
    "simulator",
    "step_player",
    "steps",
    "sweeps",
]


def load_ipython_extension(ipython) -> None:
    """`%load_ext gemmlab`: the cell magic %%kernel."""
    import_module(".magic", __name__).register(ipython)


def __getattr__(name: str):
    """Load what needs pandas and matplotlib only when it is used."""
    if name == "ceilings":
        return import_module(".roofline", __name__).ceilings
    if name == "compare":
        return import_module(".comparison", __name__).compare
    if name == "epilogue":
        return import_module(".epilogues", __name__).epilogue
    if name == "fma_order":
        return import_module(".outer_products", __name__).fma_order
    if name == "lab":
        return import_module(".widgets", __name__).lab
    if name == "path":
        return import_module(".paths", __name__).path
    if name == "step_player":
        return import_module(".player", __name__).step_player
    if name in ("counted", "exercises", "facts", "overview", "plots", "sass", "steps", "sweeps"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module 'gemmlab' has no attribute {name!r}")
