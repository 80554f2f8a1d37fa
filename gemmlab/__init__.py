"""GEMM Lab: matrix-product kernels to read, run, count and time, with a GPU or without one.

import gemmlab as gl
kernel = gl.load("02_coalescing")
C = kernel(A, B)
kernel.verify()
C = gl.matmul(A, B)  # by the rung that suits the shape
"""

from importlib import import_module

from gemmlab import simulator
from gemmlab._version import __version__ as __version__
from gemmlab.kernel.arguments import ArgumentError
from gemmlab.kernel.bounds import error_bound, reference
from gemmlab.kernel.compiler import CompileError
from gemmlab.kernel.faults import GpuFault
from gemmlab.kernel.kernel import Kernel, KernelMistake, from_source
from gemmlab.kernel.operands import random_matrix
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import CEILINGS, HALF, RUNGS, IllegalSetting, LadderError, Problem
from gemmlab.loading import load
from gemmlab.notebook.heat import heat
from gemmlab.records.runs import device

__all__ = [
    "CEILINGS",
    "HALF",
    "RUNGS",
    "ArgumentError",
    "CompileError",
    "GpuFault",
    "IllegalSetting",
    "Kernel",
    "KernelMistake",
    "LadderError",
    "Problem",
    "VerificationError",
    "batches",
    "ceilings",
    "choose",
    "compare",
    "counters",
    "device",
    "epilogue",
    "error_bound",
    "error_sliders",
    "exercises",
    "facts",
    "fma_order",
    "from_source",
    "glossary",
    "gpus_side_by_side",
    "heat",
    "index",
    "inner_loop",
    "issue_slots",
    "k_steps",
    "lab",
    "load",
    "matmul",
    "overview",
    "path",
    "plots",
    "quantize",
    "random_matrix",
    "ranks_lab",
    "recorded_ceilings",
    "reference",
    "ring_player",
    "sass",
    "schedule_lines",
    "search_lab",
    "simulator",
    "stalls",
    "step_player",
    "tuning",
]

# What needs pandas and matplotlib is loaded only when it is used: name -> its module, and what of
# it is meant, where that is not the module itself.
_LATER = {
    "batches": ("lessons.batched.measure", "batches"),
    "ceilings": ("records.roofs", "ceilings"),
    "choose": ("products.choosing", "choose"),
    "compare": ("analysis.comparison", "compare"),
    "counters": ("analysis.counters", None),
    "epilogue": ("lessons.fused_epilogue.measure", "epilogue"),
    "error_sliders": ("lessons.fp8.error_sliders", "error_sliders"),
    "exercises": ("notebook.exercises", None),
    "facts": ("analysis.facts", None),
    "fma_order": ("lessons.register_banks.measure", "fma_order"),
    "glossary": ("notebook.glossary", "glossary"),
    "gpus_side_by_side": ("analysis.recorded.gpus", "of_roofs"),
    "index": ("notebook.index", None),
    "inner_loop": ("notebook.inner_loop", "inner_loop"),
    "issue_slots": ("analysis.issue_slots", "issue_slots"),
    "k_steps": ("analysis.traced.k_steps", None),
    "lab": ("notebook.labs.sliders", "lab"),
    "matmul": ("products.call", "matmul"),
    "overview": ("notebook.overview", None),
    "path": ("records.ablations", "path"),
    "plots": ("plots", None),
    "quantize": ("kernel.quantize", "quantize"),
    "ranks_lab": ("lessons.multi_gpu.lab", "ranks_lab"),
    "recorded_ceilings": ("records.roofs", "recorded_ceilings"),
    "ring_player": ("lessons.warp_specialized.ring_player", "ring_player"),
    "sass": ("sass", None),
    "schedule_lines": ("lessons.multi_gpu.lines", "schedule_lines"),
    "search_lab": ("lessons.autotuning.lab", "search_lab"),
    "stalls": ("analysis.recorded.stalls", "stalls"),
    "step_player": ("notebook.labs.step_player", "step_player"),
    "tuning": ("records.tuning", None),
}


def _benchmark(kernel: Kernel):
    """pandas.DataFrame of times beside cuBLAS: measured here, or replayed where no GPU is."""
    return import_module("gemmlab.records.runs").benchmark(kernel)


Kernel.benchmark = _benchmark  # here, for records stand on kernels and not below them


def load_ipython_extension(ipython) -> None:
    """`%load_ext gemmlab`: the cell magic %%kernel."""
    import_module("gemmlab.notebook.kernel_magic").register(ipython)


def __dir__() -> list[str]:
    """What completion offers: also what is loaded only when it is used."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str):
    """Raises ImportError, saying what to install, for what draws with ipywidgets without them."""
    if name not in _LATER:
        raise AttributeError(f"module 'gemmlab' has no attribute {name!r}")
    module, what = _LATER[name]
    try:
        found = import_module(f"gemmlab.{module}")
    except ModuleNotFoundError as error:
        if error.name != "ipywidgets":
            raise
        raise ImportError(
            f"gl.{name} needs ipywidgets, which is not here: pip install ipywidgets, "
            "then restart the kernel."
        ) from None
    return found if what is None else getattr(found, what)
