"""A CUDA kernel run on NumPy: NVRTC compiles it, its PTX is executed here. No GPU is needed.

    >>> run = launch(Path("kernel.cu"), "scale", 1, 32, [x, 2.0], count=True)
    >>> run.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]

Results of float32 kernels equal an NVIDIA H200's bit for bit, and so do the counts of requests and
sectors of global memory, but for what counters.py names. Read in this order: launcher, ptx,
contraction, translate with instructions/, grid, machine, memory/, arithmetic/, counters, checks/.
"""

from gemmlab.cuda.nvrtc import CompileError, NoCompiler
from gemmlab.simulator.async_copy.tensor_map import TensorMap, TensorMaps
from gemmlab.simulator.contraction import Note
from gemmlab.simulator.counters import LineCount
from gemmlab.simulator.counting import BoxCopy, FactorRead, WarpAccess
from gemmlab.simulator.errors import LaunchError, TakesTooLong
from gemmlab.simulator.launcher import launch
from gemmlab.simulator.machine import Finding
from gemmlab.simulator.memory.global_memory import read_only, uninitialised
from gemmlab.simulator.memory.structures import Part, Pointers, Structure
from gemmlab.simulator.ptx import PtxError
from gemmlab.simulator.run import Run, Step
from gemmlab.simulator.translate import UnknownInstruction

__all__ = [
    "BoxCopy",
    "CompileError",
    "FactorRead",
    "Finding",
    "LaunchError",
    "LineCount",
    "NoCompiler",
    "Note",
    "Part",
    "Pointers",
    "PtxError",
    "Run",
    "Step",
    "Structure",
    "TakesTooLong",
    "TensorMap",
    "TensorMaps",
    "UnknownInstruction",
    "WarpAccess",
    "launch",
    "read_only",
    "uninitialised",
]
