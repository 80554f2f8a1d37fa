"""CUDA C++ to PTX: NVRTC, the headers that a source includes, and what was compiled before.

A project that keeps compiled programs hands them to `use_store`.
"""

from ptxsim.compile.nvrtc import use_store

__all__ = ["use_store"]
