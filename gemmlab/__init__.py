"""GEMM Lab: matrix-product kernels to read, run, count and time, with a GPU or without one.

import gemmlab as gl
kernel = gl.load("02_coalescing")
C = kernel(A, B)
kernel.verify()
C = gl.matmul(A, B)  # with the rung that suits the shape
"""

from importlib import import_module
from typing import Any

from gemmlab import folders, simulator
from gemmlab._version import __version__ as __version__
from gemmlab.cuda.device import NoGpu
from gemmlab.kernel.arguments import ArgumentError
from gemmlab.kernel.bounds import error_bound, reference
from gemmlab.kernel.faults import GpuFault
from gemmlab.kernel.in_simulator import KernelMistake
from gemmlab.kernel.kernel import Kernel, from_source
from gemmlab.kernel.operands import random_matrix
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import CEILINGS, HALF, RUNGS, IllegalSetting, LadderError, Problem
from gemmlab.loading import load
from gemmlab.records.registry import NoRecord
from gemmlab.records.runs import device
from gemmlab.report import Listing
from ptxsim import CompileError

# What needs pandas and matplotlib is loaded only when it is used: name -> its module, and the item
# in it, None for the module itself.
_LATER = {
    "best_by_shape": ("records.best_by_shape", None),
    "ceilings": ("records.roofs", "ceilings"),
    "choose": ("products.choosing", "choose"),
    "chosen_shares": ("analysis.recorded", "chosen_shares"),
    "compare": ("analysis.facts", "compare"),
    "counters": ("analysis.counters", None),
    "exercises": ("notebook.exercises", None),
    "facts": ("analysis.facts", None),
    "glossary": ("notebook.glossary", "glossary"),
    "gpu_speeds": ("analysis.recorded", "gpu_speeds"),
    "grouped_matmul": ("lessons.grouped.product", "grouped_matmul"),
    "heat": ("notebook.heat", "Heat"),
    "index": ("notebook.index", None),
    "inner_loop": ("notebook.inner_loop", "inner_loop"),
    "issue_slots": ("analysis.recorded", "issue_slots"),
    "k_steps": ("analysis.k_steps", None),
    "lab": ("notebook.lab", "lab"),
    "matmul": ("products.call", "matmul"),
    "occupancy": ("analysis.facts", "occupancy"),
    "overview": ("notebook.overview", None),
    "path": ("records.ablations", "path"),
    "plots": ("plots", None),
    "quantize": ("lessons.fp8.quantize", "quantize"),
    "recorded_ceilings": ("records.roofs", "recorded_ceilings"),
    "roofline": ("analysis.roofline", None),
    "runs": ("records.runs", None),
    "sass": ("sass", None),
    "stalls": ("analysis.recorded", "stalls"),
    "step_player": ("notebook.step_player", "step_player"),
    "tuning": ("records.tuning", None),
    "verify_at": ("kernel.verify", "check"),
}

__all__ = [
    "CEILINGS", "HALF", "RUNGS", "ArgumentError", "CompileError", "GpuFault", "IllegalSetting",
    "Kernel", "KernelMistake", "LadderError", "Listing", "NoGpu", "NoRecord", "Problem",
    "VerificationError", "device", "error_bound", "folders", "from_source", "load",
    "random_matrix", "reference", "simulator", *_LATER,
]  # fmt: skip


def __dir__() -> list[str]:
    """What completion offers: also what is loaded only when it is used."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'gemmlab' has no attribute {name!r}")
    place, item = _LATER[name]
    module = import_module(f"gemmlab.{place}")
    return module if item is None else getattr(module, item)
