"""Run CUDA kernels without a GPU: NVRTC compiles them to PTX, which is executed on NumPy arrays.

    >>> run = launch(Path("kernel.cu"), "scale", 1, 32, [x, 2.0], count=True)
    >>> run.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]

Results of float32 kernels equal those of an NVIDIA H200 bit for bit, and so do the counts of
requests and sectors of global memory, except for the differences that metrics.py names. Read in
this order: launcher, ptx, contraction, translate with instructions/, grid, machine, memory/,
arithmetic/, metrics, checks/.
"""

from ptxsim.async_copy.tensor_map import TensorMap, TensorMaps
from ptxsim.compile.nvrtc import CompileError, NoCompiler
from ptxsim.contraction import Note
from ptxsim.counting import BoxCopy, FactorRead, TensorUse, WarpAccess
from ptxsim.launcher import Run, Step, launch, launch_ptx
from ptxsim.limits import LaunchError, TakesTooLong
from ptxsim.machine import Deadline, Finding
from ptxsim.memory.global_memory import read_only, uninitialised
from ptxsim.memory.structures import Part, Pointers, Structure
from ptxsim.metrics import LineCount
from ptxsim.ptx import PtxError
from ptxsim.system_calls import FirstLines
from ptxsim.textures import Surface, Texture
from ptxsim.translate import UnknownInstruction

__all__ = [
    "BoxCopy",
    "CompileError",
    "Deadline",
    "FactorRead",
    "Finding",
    "FirstLines",
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
    "Surface",
    "TakesTooLong",
    "TensorMap",
    "TensorMaps",
    "TensorUse",
    "Texture",
    "UnknownInstruction",
    "WarpAccess",
    "launch",
    "launch_ptx",
    "read_only",
    "uninitialised",
]
