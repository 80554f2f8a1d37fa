"""CUDA C++ to PTX and cubin with NVRTC, which needs no GPU and no driver.

`signals_kept` makes Ctrl-C safe around it. cuda-pathfinder finds the library in a wheel, a conda
environment or a toolkit. CuPy finds its NVRTC in the same way, so that both compile alike.

NVRTC passes inline assembly on as it stands, so that it takes ptxas to find a mistake in it. A
statement that ptxas has accepted once, in other registers of the same kind, it will accept again.
"""

from __future__ import annotations

import ctypes
import hashlib
import marshal
import os
import re
import signal
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Any

from ptxsim.compile import headers
from ptxsim.host_code import PROGRAM, without_host

# What CuPy adds to every RawModule: float32 subnormals count as zero. Compiling the same way is
# what makes a simulated result equal to the GPU's, bit for bit.
COMMON_OPTIONS = ("-ftz=true", "-lineinfo", "-std=c++17")

# Names the folder in which what NVRTC makes is kept for other processes; empty for none.
KEPT = "PTXSIM_COMPILED"
KEPT_IN = Path("~", ".cache", "ptxsim")  # where the variable is not set

CONTEXT_LINES = 2

# Code for one architecture alone ("a") or for its family ("f"), and since which there is such.
SUFFIXES = {"": 0, "a": 90, "f": 100}

# Since this version NVRTC keeps results on disk where there is a driver, and one that comes from
# there comes without the report of ptxas.
CACHES_SINCE = (12, 9)

# Bytes of memory that ptxas lets a source declare: for a block, for a thread, for all.
STATIC_BYTES = {"shared": 48 << 10, "local": 512 << 10, "const": 64 << 10}

TAKEN_SIGNALS = (signal.SIGINT, signal.SIGTERM)
SIGACTION_BYTES = 256  # room for the C structure, which has 152 on Linux
_signals = threading.Lock()  # what is kept must never be NVRTC's own handlers

INSTALL = 'pip install "ptxsim[nvrtc]", or install a CUDA toolkit and pip install cuda-pathfinder'
MISSING = f"NVRTC, the compiler of CUDA C++, cannot be loaded: {INSTALL}"

MISSING_HEADERS = (
    f"CUDA's headers {' and '.join(headers.NEEDED)} are not both here: {headers.INSTALL}."
)
MISSING_FILE = re.compile(r'cannot open source file "(?!cuda/|nv/|cccl/)([^"]+)"')
# A header of CUDA's C++ library that the compiler did not find.
CORE_LIBRARY = re.compile(r'cannot open source file "(cuda|nv)/')
MISSING_CORE_LIBRARY = (
    "CUDA's C++ library, which <cuda/...> and <cooperative_groups.h> need, is not here: install "
    "the wheel nvidia-cuda-cccl in the version of your nvidia-cuda-runtime, or set CUDA_PATH to a "
    "CUDA toolkit."
)


class CompileError(Exception):
    """The source does not compile. The message shows the lines around each error."""


class NoCompiler(Exception):
    """NVRTC cannot be loaded here. The message says what to install."""


@dataclass(frozen=True)
class Program:
    ptx: str
    cubin: bytes
    log: str
    lowered: dict[str, str] = field(default_factory=dict)  # name expression -> name in the PTX


Find = Callable[[str, str, str, tuple[str, ...]], Program]
"""Of (source, filename, arch, options), the Program that NVRTC made before; raises NoCompiler where
there is none."""
_store: Find | None = None


def use_store(find: Find | None) -> None:
    """From now on, take from `find` what NVRTC made before, instead of compiling it; None: no more.

    What `find` raises NoCompiler for is compiled. Where NVRTC is missing, that error is raised.
    """
    global _store
    _store = find


def compile_source(source: str, filename: str, **how: Any) -> Program:
    """As `compile_anew`, but what is in the store is not compiled again, and the same call is free.

    Where NVRTC or CUDA's headers are missing, a Program of the store will do that has only the log.
    """
    return _source(source, filename, **how).assembled


def translate_source(source: str, filename: str, **how: Any) -> Program:
    """As `compile_source`, perhaps without cubin and log, in half the time; raises the same.

    The assembler, ptxas, is left out where it could not find an error.
    """
    return _source(source, filename, **how).translated


def _source(
    source: str, filename: str, arch: str = "sm_90a", options: tuple = (), names: tuple = ()
) -> Source:
    return kept(source, filename, arch, options, names, headers.included(source, options))


@lru_cache(maxsize=256)
def kept(
    source: str, filename: str, arch: str, options: tuple[str, ...], names: tuple[str, ...],
    included: tuple[tuple[str, str], ...],
) -> Source:  # fmt: skip
    """The same Source for the same call, as long as the headers that it includes are the same."""
    return Source(source, filename, arch, options, names)


@dataclass(eq=False)
class Source:
    """A text, and what NVRTC makes of it, or what is in the store, once it is requested."""

    text: str
    filename: str
    arch: str
    options: tuple[str, ...]
    names: tuple[str, ...]

    @cached_property
    def assembled(self) -> Program:
        there, nothing = self._in_store()
        if there is None or not self._will_do(there):
            how: Any = {"arch": self.arch, "options": self.options, "names": self.names}
            try:
                there = compile_anew(self.text, self.filename, **how)
            except NoCompiler as error:
                if there is None:
                    raise (nothing or error) from None
        _accept(self.text, there.ptx, self.arch)
        return there

    @cached_property
    def translated(self) -> Program:
        is_there = "assembled" in self.__dict__ or self._will_do(self._in_store()[0])
        if not is_there and not _is_new(self.text, self.arch):
            try:
                program = _translated(self.text, self.filename, self.arch, self.options, self.names)
            except NoCompiler:
                program = None
            if program and not _may_be_refused(program.ptx, self.arch):
                return program
        return self.assembled

    def _in_store(self) -> tuple[Program | None, NoCompiler | None]:
        if self.names or not _store:  # nothing in the store has been named by an expression
            return None, None
        try:
            return _store(self.text, self.filename, self.arch, self.options), None
        except NoCompiler as error:
            return None, error

    def _will_do(self, there: Program | None) -> bool:
        return bool(there and (there.ptx or headers.are_missing(self.text)))


def compile_anew(
    source: str, filename: str, *, arch: str = "sm_90a", options: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
) -> Program:  # fmt: skip
    """Compile CUDA C++ `source` for `arch` ("sm_80", "sm_90a", …).

    `names`: expressions such as "scale<float>", whose instances are made, and whose names in the
    PTX the Program has in `lowered`.

    `filename` is the name that errors and line tables carry. `options` go to NVRTC as they are,
    after `COMMON_OPTIONS`. The log holds what ptxas says of registers and spills. Ctrl-C takes
    effect once NVRTC is done: a second or two for a large kernel.

    Raises CompileError with the lines around each error, NoCompiler where NVRTC is missing.
    """
    nvrtc = _library()
    flags = _flags(nvrtc, source, arch, ("--ptxas-options=-v", *options))
    try:
        return nvrtc.compile(source, filename, names, flags)
    except NvrtcError as error:
        if not error.log.strip():
            raise CompileError(f"{filename}: NVRTC refused {' '.join(flags)}: {error}") from None
        message = _readable(error.log, source, filename, arch)
        if headers.are_missing(source):
            message += f"\n{MISSING_HEADERS}"
        if headers.core_libraries() is None and CORE_LIBRARY.search(error.log):
            message += f"\n{MISSING_CORE_LIBRARY}"
        raise CompileError(message) from None


def _translated(
    source: str, filename: str, arch: str, options: tuple[str, ...], names: tuple[str, ...]
) -> Program | None:
    """The PTX alone; None where there is an error, which `compile_anew` then tells."""
    nvrtc = _library()
    kept = tuple(option for option in options if not option.startswith("--ptxas-options"))
    flags = _flags(nvrtc, source, arch.replace("sm_", "compute_"), kept)
    try:
        return replace(nvrtc.compile(source, filename, names, flags), log="")
    except NvrtcError:
        return None


def _flags(nvrtc: Library, source: str, arch: str, options: tuple[str, ...]) -> tuple[str, ...]:
    flags = (f"-arch={arch}", *COMMON_OPTIONS, *options)
    if nvrtc.version() >= CACHES_SINCE:
        flags += ("--no-cache",)
    if "#include" in source:
        flags += header_options()
    return flags


def _may_be_refused(ptx: str, arch: str) -> bool:
    """Whether ptxas may find an error: in inline PTX, in what is undefined, in too much memory."""
    if ".extern .func" in ptx or not _is_accepted(ptx, arch):
        return True
    taken = dict.fromkeys(STATIC_BYTES, 0)
    declared = r"^\s*(?:\.\w+ )*\.(shared|local|const)\b.*?\.[bfsu](\d+) \S+?(?:\[(\d+)\])?(?:;| =)"
    for space, bits, count in re.findall(declared, ptx, re.M):
        taken[space] += int(bits) // 8 * int(count or 1)
    return any(taken[space] > most for space, most in STATIC_BYTES.items())


@contextmanager
def signals_kept() -> Iterator[None]:
    """Around all that calls NVRTC: what it does to signals is undone, meanwhile and afterwards.

    While its front end reads the text, NVRTC answers SIGINT and SIGTERM itself: it ends the process
    with exit code 4. Then it puts the earlier handlers back with SA_RESTART, and from there on
    Ctrl-C does not wake a thread that waits for a lock. NVRTC cannot be stopped, so Ctrl-C during
    the call takes effect right after it.
    """
    if sys.platform != "linux":
        yield
        return
    with _signals:
        sigaction, done = ctypes.CDLL(None).sigaction, threading.Event()
        before = {number: ctypes.create_string_buffer(SIGACTION_BYTES) for number in TAKEN_SIGNALS}
        for number, handling in before.items():
            sigaction(number, None, handling)

        def keep() -> None:
            last = False
            while not last:
                last = done.wait(0.001)
                for number, handling in before.items():
                    sigaction(number, handling, None)

        keeper = threading.Thread(target=keep, daemon=True)
        try:
            keeper.start()
            yield
        finally:
            done.set()
            if keeper.is_alive():
                keeper.join()


def header_options() -> tuple[str, ...]:
    """The options that say where CUDA's own headers are; none where there are none."""
    return tuple(f"-I{folder}" for folder in (headers.folder(), headers.core_libraries()) if folder)


def archs() -> tuple[str, ...]:
    """All that the NVRTC here compiles for: "sm_75", …, "sm_90", "sm_90a", …. Raises NoCompiler."""
    return tuple(
        f"sm_{number}{suffix}"
        for number in _library().architectures()
        for suffix, oldest in SUFFIXES.items()
        if number >= oldest
    )


def version() -> str:
    """NVRTC's version, such as "13.0". Raises NoCompiler where NVRTC is missing."""
    return ".".join(str(part) for part in _library().version())


@cache
def _library() -> Library:
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        path = load_nvidia_dynamic_lib("nvrtc").abs_path
        if path is None:
            raise OSError("cuda-pathfinder does not tell where NVRTC is")
        return Library(path)
    except (ImportError, OSError, RuntimeError) as error:
        raise NoCompiler(f"{MISSING} ({str(error).splitlines()[0]})") from None


def _readable(log: str, source: str, filename: str, arch: str) -> str:
    """The errors of NVRTC's log, each with the lines around it in the reader's file."""
    lines = source.splitlines()
    parts = [f"{filename} does not compile for {arch}."]
    for where, number, message in re.findall(
        r"^(?:(.*?)\((\d+)\)|At end of source): (?:catastrophic )?error:? *(.*)$", log, re.M
    ):
        if not number:  # a bracket that is never closed: what helps is where it was opened
            opened = re.search(r"^(.*?)\((\d+)\): note.*?: *(to match .*)$", log, re.M)
            where, number = opened.groups()[:2] if opened else (filename, str(len(lines)))
            message = f"{message} at the end of the file" + (f" {opened[3]}" if opened else "")
        parts.append(f"\n{where}, line {number}: {message}")
        if PurePath(where).name != filename:
            continue
        middle = int(number)
        first = max(1, middle - CONTEXT_LINES)
        for shown in range(first, min(len(lines), middle + CONTEXT_LINES) + 1):
            mark = ">" if shown == middle else " "
            parts.append(f"  {mark} {shown:4d} | {lines[shown - 1]}")
    if len(parts) == 1:  # ptxas, which has no lines; what it says of success holds a time as well
        messages = (line.strip("\0 ") for line in log.splitlines())
        parts += [line for line in messages if line and not re.match(r"ptxas *(info|\.) ", line)]
    return "\n".join(parts)


# --- inline assembly that ptxas has accepted ------------------------------------------------------


_STATEMENT = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.S)
_REGISTER = re.compile(r"%(r|rd|rs|rq|f|fd|p|h|hh)\d+\b")
# What declares a name, a register for example, or is a label: to have it twice is a mistake.
_DECLARES = re.compile(r"(?:^|[;{}\n])\s*(?:\.\w+|[\w$]+\s*:)")
# What depends on the rest of the kernel, too.
_DEPENDS = re.compile(r"\bsetmaxnreg\b")
_IN_SOURCE = re.compile(r"\basm\b[^;]*;")

_accepted: set[tuple[str, str]] = set()  # (architecture, statement)
_seen_in_sources: set[tuple[str, str]] = set()


def _accept(source: str, ptx: str, arch: str) -> None:
    """Remember the statements of a text that ptxas has accepted for `arch`."""
    _accepted.update((arch, form) for form in _forms(ptx))
    _seen_in_sources.update((arch, text) for text in _IN_SOURCE.findall(source))


def _is_accepted(ptx: str, arch: str) -> bool:
    """Whether ptxas has accepted all statements for `arch` before."""
    return all((arch, form) in _accepted and _stands_alone(form) for form in _forms(ptx))


def _is_new(source: str, arch: str) -> bool:
    """Whether CUDA C++ has inline assembly that was in no accepted source, as far as one sees."""
    return any((arch, text) not in _seen_in_sources for text in _IN_SOURCE.findall(source))


def _forms(ptx: str) -> set[str]:
    return {_REGISTER.sub(r"%\1", text.strip()) for text in set(_STATEMENT.findall(ptx))}


def _stands_alone(form: str) -> bool:
    """Whether it is right wherever it stands, however often."""
    return not _DEPENDS.search(form) and (not _DECLARES.search(form) or _in_one_pair(form))


def _in_one_pair(form: str) -> bool:
    """Whether all of it is in one pair of braces, which is a scope of its own."""
    depths = [*accumulate((character == "{") - (character == "}") for character in form)]
    return depths[-1:] == [0] and depths.count(0) == 1


# --- NVRTC's C interface, through ctypes ----------------------------------------------------------


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

    def compile(self, source: str, filename: str, names: tuple, options: tuple) -> Program:
        """A Program, with the instances of `names`. Raises NvrtcError, which has the log."""
        if not (folder := os.environ.get(KEPT, str(KEPT_IN))):
            return self._compile(source, filename, names, options)
        made_of = self.version(), source, filename, names, options
        content = repr((*made_of, headers.included(source, options, headers.ANY_INCLUDE)))
        path = Path(folder, hashlib.sha256(content.encode()).hexdigest()).expanduser()
        with suppress(OSError, zlib.error, EOFError, ValueError, TypeError):  # not there, or cut
            return Program(*marshal.loads(zlib.decompress(path.read_bytes())))
        made = self._compile(source, filename, names, options)
        part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")  # nobody reads half
        with suppress(OSError):  # a full disk, or a home that cannot be written to
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(zlib.compress(marshal.dumps((*vars(made).values(),)), 1))
            part.replace(path)
        return made

    def _compile(self, source: str, filename: str, names: Sequence, options: Sequence) -> Program:
        of_host = headers.of_host(tuple(options))
        files: Sequence[tuple[str, str]] = ()
        if PROGRAM in options:
            given = tuple(option for option in options if option not in header_options())
            files = headers.included(source, given, headers.ANY_INCLUDE)
        while True:
            try:
                return self._compile_with(of_host, source, filename, names, options)
            except NvrtcError as error:
                if PROGRAM not in options:
                    raise
                more = dict.fromkeys(MISSING_FILE.findall(error.log), "")
                more |= {name: without_host(text) for name, text in files}
                if more.keys() <= of_host.keys():
                    raise
                of_host = more | of_host

    def _compile_with(
        self, of_host: dict[str, str], source: str, filename: str, names: Sequence,
        options: Sequence,
    ) -> Program:  # fmt: skip
        """`of_host`: texts of headers by the names by which they are included."""
        program = ctypes.c_void_p()
        texts, called = (
            (ctypes.c_char_p * len(of_host))(*map(str.encode, part))
            for part in (of_host.values(), of_host)
        )
        self._call(
            "nvrtcCreateProgram", ctypes.byref(program), source.encode(), filename.encode(),
            len(of_host), texts, called,
        )  # fmt: skip
        try:
            for name in names:
                self._call("nvrtcAddNameExpression", program, name.encode())
            encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            with signals_kept():
                self._call("nvrtcCompileProgram", program, len(options), encoded)
            ptx, log = (self._result(program, what).decode() for what in ("PTX", "ProgramLog"))
            lowered = {name: self._lowered(program, name) for name in names}
            cubin = self._result(program, "CUBIN")
            return Program(ptx.rstrip("\0"), cubin, log.rstrip("\0"), lowered)
        except NvrtcError as error:
            log = self._result(program, "ProgramLog").decode(errors="replace").rstrip("\0")
            raise NvrtcError(str(error), log) from None
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _lowered(self, program: ctypes.c_void_p, name: str) -> str:
        """The name in the PTX of an instance, by its expression."""
        lowered = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", program, name.encode(), ctypes.byref(lowered))
        assert lowered.value is not None
        return lowered.value.decode()

    def _result(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        room = ctypes.create_string_buffer(size.value)
        if size.value:  # there is no cubin for a virtual architecture
            self._call(f"nvrtcGet{what}", program, room)
        return room.raw

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            error = self._library.nvrtcGetErrorString(code).decode()
            raise NvrtcError(f"{function} returned {error} ({code})")
