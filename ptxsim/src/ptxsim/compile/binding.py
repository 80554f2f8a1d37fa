"""NVRTC's C interface, through ctypes.

cuda-pathfinder finds the library in a wheel, a conda environment or a toolkit. CuPy finds its NVRTC
in the same way, so that both compile alike.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache


class NvrtcError(Exception):
    def __init__(self, message: str, log: str = ""):
        super().__init__(message)
        self.log = log


class Library:
    """NVRTC, loaded from the path of its library. Raises OSError where that is no library."""

    def __init__(self, path: str):
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def version(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def architectures(self) -> list[int]:
        """The numbers of the architectures that it compiles for: 75, 80, …"""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return list(numbers)

    @contextmanager
    def program(
        self, source: str, filename: str, names: Sequence[str] = ()
    ) -> Iterator[Compilation]:
        """A Compilation, freed at the end. `names`: of instances to make. Raises NvrtcError."""
        program = ctypes.c_void_p()
        self._call(
            "nvrtcCreateProgram", ctypes.byref(program), source.encode(), filename.encode(),
            0, None, None,
        )  # fmt: skip
        try:
            for name in names:
                self._call("nvrtcAddNameExpression", program, name.encode())
            yield Compilation(self, program)
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            said = self._library.nvrtcGetErrorString(code).decode()
            raise NvrtcError(f"{function} returned {said} ({code})")


class Compilation:
    def __init__(self, library: Library, program: ctypes.c_void_p):
        self._library, self._program = library, program

    def compile(self, options: Sequence[str]) -> None:
        """Raises NvrtcError, with the log."""
        encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        try:
            self._library._call("nvrtcCompileProgram", self._program, len(options), encoded)
        except NvrtcError as error:
            raise NvrtcError(str(error), self.log()) from None

    def log(self) -> str:
        return self._bytes("ProgramLog").decode(errors="replace").rstrip("\0")

    def ptx(self) -> str:
        return self._bytes("PTX").decode().rstrip("\0")

    def cubin(self) -> bytes:
        return self._bytes("CUBIN")

    def lowered(self, name: str) -> str:
        """The name in the PTX of an instance, by its expression; only after `compile`."""
        found = ctypes.c_char_p()
        self._library._call(
            "nvrtcGetLoweredName", self._program, name.encode(), ctypes.byref(found)
        )
        assert found.value is not None
        return found.value.decode()

    def _bytes(self, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._library._call(f"nvrtcGet{what}Size", self._program, ctypes.byref(size))
        room = ctypes.create_string_buffer(size.value)
        self._library._call(f"nvrtcGet{what}", self._program, room)
        return room.raw


@cache
def library() -> Library:
    """NVRTC. Raises ImportError, OSError or RuntimeError, which say what is missing."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    path = load_nvidia_dynamic_lib("nvrtc").abs_path
    if path is None:
        raise OSError("cuda-pathfinder does not tell where NVRTC is")
    return Library(path)
