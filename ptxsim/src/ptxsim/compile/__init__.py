"""CUDA C++ to PTX: NVRTC, the headers that a source includes, and what was compiled before.

A project that keeps compiled programs hands them to `use_store`.
"""

from ptxsim.compile.nvrtc import (
    CompileError,
    NoCompiler,
    Program,
    compile_anew,
    compile_source,
    translate_source,
    use_store,
)

__all__ = [
    "CompileError",
    "NoCompiler",
    "Program",
    "compile_anew",
    "compile_source",
    "translate_source",
    "use_store",
]
