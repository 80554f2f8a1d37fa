"""A rung, compiled and ready to call: on a GPU through cupy.RawModule, else in the simulator."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from . import ladder, simulator
from .activations import ACTIVATIONS
from .compiler import Compiled, Resources, code_hash, compile_kernel, options_for
from .device import gpu
from .occupancy import occupancy
from .simulator.nvrtc import COMMON_OPTIONS
from .trace import Trace
from .verify import PRODUCT, Case, Report, random_matrix, verify

SIMULATED_ARCH = "sm_90a"  # the GPU that the records in results/ come from
PATIENCE_S = 120.0


class ArgumentError(Exception):
    """Matrices or factors that a kernel does not take. The message says what it takes."""


class KernelMistake(Exception):
    """The simulator met a mistake of the kernel, such as an access out of bounds."""


@dataclass(frozen=True)
class Listing:
    """Code that a notebook shows with highlighting, and a terminal as it is."""

    text: str
    language: str

    def __repr__(self):
        return self.text

    def _repr_html_(self):
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name

        # Styles in place: they hold in every viewer, on a light ground also where the page is dark.
        paper = "font-family: monospace; line-height: 1.3; color: #222; background: #fcfcfa"
        formatter = HtmlFormatter(noclasses=True, prestyles=f"{paper}; padding: 0.5em")
        return highlight(self.text, get_lexer_by_name(self.language), formatter)


def load(name: str, arch: str | None = None, **settings: int) -> Kernel:
    """The rung `name`, such as "02_coalescing", compiled with these tile parameters.

    Raises LadderError for a name that is not there, IllegalSetting before anything is compiled,
    and CompileError with the lines around the error.
    """
    rung = ladder.find(name)
    return Kernel(rung, ladder.settings_for(rung, settings), arch, rung.path)


def from_source(source: str, like: str, arch: str | None = None, **settings: int) -> Kernel:
    """A kernel from CUDA C++ text, with the entry, parameters and launch shape of rung `like`."""
    rung = ladder.find(like)
    return Kernel(rung, ladder.settings_for(rung, settings), arch, source)


class Kernel:
    """C = alpha * A @ B + beta * C for row-major matrices of any size, of the rung's dtype.

    Of a rung that takes a bias it is `activation`(alpha * A @ B + beta * C + bias).
    `text` is the source, `compiled` what NVRTC made of it (given, where that was done elsewhere),
    `arch` what it was compiled for: the GPU's own, or sm_90a in the simulator.
    """

    Mistake = KernelMistake

    def __init__(
        self,
        rung: ladder.Rung,
        settings: ladder.Settings,
        arch: str | None,
        source: str | Path,
        compiled: Compiled | None = None,
    ):
        self.rung, self.settings = rung, settings
        self.name, self.dtype = rung.name, rung.dtype
        self.on_gpu = gpu() is not None
        self.arch = arch or (gpu().arch if self.on_gpu else SIMULATED_ARCH)
        ladder.require_arch(rung, settings, self.arch)
        self._source = source
        in_file = isinstance(source, Path)
        self.text = source.read_text(encoding="utf-8") if in_file else source
        self._filename = source.name if in_file else "kernel.cu"
        self.compiled: Compiled = compiled or self._compile(self.arch)
        self._gpu_function = None
        self.limit_s = PATIENCE_S  # of one launch in the simulator; past it, it is a TakesTooLong

    def __repr__(self):
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.name}({settings}) for {self.arch}"

    @property
    def activation(self) -> str:
        """What is done to each element at the end: one of ACTIVATIONS."""
        return ACTIVATIONS[self.settings.get("ACTIVATION", 0)]

    def __call__(self, A, B, C=None, alpha: float = 1.0, beta: float = 0.0, bias=None):
        """alpha * A @ B + beta * C as a new array (M, N), with bias and activation if the rung has.

        `A`: (M, K), `B`: (K, N), `C`: (M, N), which is not changed and only needed where beta is
        not 0, `bias`: (N,), for a rung that takes one. All are NumPy or all CuPy arrays of the
        rung's dtype, C-contiguous; so is the result. Raises ArgumentError.
        """
        m, n, _ = self._check(A, B, C, beta, bias)
        host = isinstance(A, np.ndarray)
        A, B = self.to_device(A), self.to_device(B)
        bias = None if bias is None else self.to_device(bias)
        if beta != 0:
            result = self.array_module.array(C)
        else:  # an element that the kernel forgets stays NaN
            result = self.array_module.full((m, n), np.nan, self.dtype)
        self.launch_into(A, B, result, alpha, beta, bias)
        return self.to_host(result) if host else result

    def launch_into(self, A, B, C, alpha: float = 1.0, beta: float = 0.0, bias=None) -> None:
        """Launch on arrays of this device, C changed in place. On a GPU this does not wait.

        Nothing is launched for an empty C. Raises KernelMistake in the simulator.
        """
        (m, k), n = A.shape, B.shape[1]
        if m == 0 or n == 0:
            return
        shape = self.rung.launch(m, n, k, self.settings)
        if self.on_gpu:
            numbers = (np.int32(m), np.int32(n), np.int32(k), np.float32(alpha), np.float32(beta))
            end = (np.uint64(0) if bias is None else bias,) if self.rung.bias else ()
            self._function()(
                shape.grid, shape.block, (A, B, C, *numbers, *end), shared_mem=shape.shared_bytes
            )
            return
        run = self._simulate(shape, [A, B, C, m, n, k, alpha, beta], bias)
        if run.findings:
            raise KernelMistake("; ".join(str(finding) for finding in run.findings))

    def prepare(self) -> None:
        """On a GPU: compile and load now what the first launch would compile and load."""
        if self.on_gpu:
            self._function()

    # --- looking at it --------------------------------------------------------------------------

    def source(self) -> Listing:
        """The whole file."""
        return Listing(self.text.rstrip(), "cuda")

    def diff(self, other: str) -> Listing:
        """What changed in the code since rung `other`, comments left out of neither."""
        before = ladder.find(other)
        lines = difflib.unified_diff(
            before.path.read_text(encoding="utf-8").splitlines(),
            self.text.splitlines(),
            before.path.name,
            self._filename,
            lineterm="",
            n=1,
        )
        return Listing("\n".join(lines), "diff")

    def resources(self, *archs: str):
        """pandas.DataFrame: registers, spills, shared memory and occupancy, a row for each arch.

        Comes from the compiler alone: any architecture will do, such as "sm_86".
        """
        import pandas as pd

        threads = int(np.prod(self.rung.block(self.settings)))
        rows = []
        for arch in archs or (self.arch,):
            taken = self.taken(arch)
            fits = occupancy(
                arch,
                threads=threads,
                registers=taken.registers,
                shared_bytes=taken.shared_bytes,
            )
            rows.append(
                {
                    "arch": arch,
                    "threads per block": threads,
                    "registers per thread": taken.registers,
                    "spilled bytes": taken.spill_store_bytes + taken.spill_load_bytes,
                    "shared bytes per block": taken.shared_bytes,
                    "blocks per SM": fits.blocks_per_sm,
                    "occupancy": fits.occupancy,
                    "limited by": fits.limited_by,
                }
            )
        return pd.DataFrame(rows)

    def taken(self, arch: str) -> Resources:
        """Registers, spills and shared memory as compiled for an architecture such as "sm_86"."""
        ladder.require_arch(self.rung, self.settings, arch)
        taken = self._compile(arch).entries[self.rung.entry]
        dynamic = self.rung.shared_bytes(self.settings)
        return replace(taken, shared_bytes=taken.shared_bytes + dynamic)

    def trace(self, m: int, n: int, k: int, *, seed: int = 0, blocks=None) -> Trace:
        """Run an m×n×k product in the simulator and count what it asks of memory.

        `blocks`: run only these blocks (x, y, z), to look at a part of a large product.
        """
        shape = self.rung.launch(m, n, k, self.settings)
        A, B = self.random_matrix(m, k, seed), self.random_matrix(k, n, seed + 1)
        C, bias = np.full((m, n), np.nan, self.dtype), self.random_bias(n, seed + 3)
        run = self._simulate(shape, [A, B, C, m, n, k, 1.0, 0.0], bias, count=True, blocks=blocks)
        if run.findings:
            raise KernelMistake("; ".join(str(finding) for finding in run.findings))
        return Trace(
            self.name, m, n, k, self.settings, shape.grid, shape.block, run.counters, self.text,
            run, self.rung.element_bytes,
        )  # fmt: skip

    def verify(self, seed: int | None = None) -> Report:
        """Check it at awkward shapes, on the device it runs on. Show the result: it is a table.

        Inputs are new with every call, or those of `seed`.
        """
        return verify(self, seed)

    def check(self) -> Report:
        """Look for mistakes that hardware hides: races, uninitialised reads, lost barriers.

        Small products with tails and factors are run in the simulator, with all its checks; C
        counts as never written where beta is 0. Show the result: it is a table.
        """
        rows, cols = self.rung.tile(self.settings)
        step = max(32, self.settings.get("BK", 0))  # a whole step along K, then one more
        shapes = [(7, 5, 3), (17, 33, 0), (rows, cols, step), (rows + 1, cols + 1, step + 1)]
        cases = [self._look_for_mistakes(*shape, *PRODUCT) for shape in shapes]
        cases.append(self._look_for_mistakes(rows + 1, cols + 1, 31, 0.5, 2.0))
        return Report(self.name, cases)

    def benchmark(self):
        """pandas.DataFrame of times beside cuBLAS: measured here, or replayed where no GPU is."""
        from . import records

        return records.benchmark(self)

    def random_matrix(self, rows: int, cols: int, seed: int) -> np.ndarray:
        """verify.random_matrix of the rung's dtype."""
        return random_matrix(rows, cols, seed, self.dtype)

    def random_bias(self, n: int, seed: int) -> np.ndarray | None:
        """As random_matrix, (n,): of a rung that takes a bias, else None."""
        return self.random_matrix(1, n, seed)[0] if self.rung.bias else None

    def code_hash(self) -> str:
        """What a record of this kernel belongs to: its code and settings."""
        return code_hash(self._source, self.settings)

    # --- where it runs --------------------------------------------------------------------------

    @property
    def array_module(self):
        """cupy on a GPU, else numpy."""
        if not self.on_gpu:
            return np
        import cupy

        return cupy

    def to_device(self, array):
        return self.array_module.asarray(array)

    def to_host(self, array) -> np.ndarray:
        return array if isinstance(array, np.ndarray) else self.array_module.asnumpy(array)

    def _compile(self, arch: str) -> Compiled:
        return compile_kernel(self.text, self._filename, arch=arch, macros=self.settings)

    def _simulate(self, shape: ladder.Launch, args, bias=None, **how) -> simulator.Run:
        if self.rung.bias:
            args = [*args, 0 if bias is None else bias]
        return simulator.launch(
            self._source,
            self.rung.entry,
            shape.grid,
            shape.block,
            args,
            arch=self.arch,
            options=options_for(self.settings),
            shared_bytes=shape.shared_bytes,
            limit_s=self.limit_s,
            **how,
        )

    def _look_for_mistakes(self, m: int, n: int, k: int, alpha: float, beta: float) -> Case:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
        shapes = enumerate([(m, k), (k, n), (m, n)])
        A, B, C = (self.random_matrix(rows, cols, seed + i) for i, (rows, cols) in shapes)
        if beta == 0:
            C = simulator.uninitialised(C)
        shape = self.rung.launch(m, n, k, self.settings)
        bias = self.random_bias(n, seed + 3)
        run = self._simulate(shape, [A, B, C, m, n, k, alpha, beta], bias, check=True)
        message = "; ".join(str(finding) for finding in run.findings)
        worst, found = np.inf if message else 0.0, tuple(run.findings)
        return Case(
            m, n, k, alpha, beta, seed, not message, message, worst, found, bias is not None
        )  # fmt: skip

    def _function(self):
        if self._gpu_function is None:
            import cupy

            # CuPy keeps compiled modules by source and options, and does not look into headers:
            # the fingerprint makes a changed header a changed option.
            options = (
                f"-arch={self.arch}",
                *COMMON_OPTIONS,
                *options_for(self.settings),
                f"-DGEMMLAB_CODE={self.code_hash()[-12:]}",
            )
            module = cupy.RawModule(code=self.text, options=options)
            function = module.get_function(self.rung.entry)
            if dynamic := self.rung.shared_bytes(self.settings):
                function.max_dynamic_shared_size_bytes = dynamic  # past 48 KiB on request alone
            self._gpu_function = function
        return self._gpu_function

    def _check(self, A, B, C, beta: float, bias) -> tuple[int, int, int]:
        if bias is not None and not self.rung.bias:
            raise ArgumentError(f"{self.name} takes no bias; rung 11_fused_epilogue does")
        needed = {"A": A, "B": B} | ({"C": C} if beta != 0 else {})
        needed |= {} if bias is None else {"bias": bias}
        for name, array in needed.items():
            if array is None:
                raise ArgumentError(
                    f"beta is {beta}, so {self.name} needs C, a {self.dtype} (M, N) array"
                )
            kinds = (np.ndarray, self.array_module.ndarray)
            if not isinstance(array, kinds) or type(array) is not type(A):
                raise ArgumentError(
                    f"{name} is {type(array).__module__}.{type(array).__name__}: {self.name} takes "
                    "NumPy arrays, or on a GPU CuPy arrays, all of one kind"
                )
            if array.dtype != self.dtype:
                raise ArgumentError(
                    f"{name} is {array.dtype}: {self.name} takes {self.dtype}; "
                    f"use {name}.astype(np.{self.dtype})"
                )
            if array.ndim != (axes := 1 if name == "bias" else 2):
                takes = "a bias with one" if axes == 1 else "matrices"
                raise ArgumentError(f"{name} has {array.ndim} axes: {self.name} takes {takes}")
            if not array.flags.c_contiguous:
                raise ArgumentError(
                    f"{name} is not row-major without gaps: use np.ascontiguousarray({name})"
                )
        (m, k), (k_of_b, n) = A.shape, B.shape
        if k != k_of_b:
            raise ArgumentError(f"A is {m}×{k} and B is {k_of_b}×{n}: the inner sizes differ")
        if beta != 0 and C.shape != (m, n):
            raise ArgumentError(f"C is {C.shape[0]}×{C.shape[1]}, A @ B is {m}×{n}")
        if bias is not None and len(bias) != n:
            raise ArgumentError(f"bias has {len(bias)} elements, A @ B has {n} columns")
        return m, n, k
