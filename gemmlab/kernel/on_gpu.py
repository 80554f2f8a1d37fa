"""The launches of a product on a GPU, through cupy.RawModule."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import numpy as np

from gemmlab.cuda.driver import PackedLaunch, tensor_map
from gemmlab.cuda.options import options_for
from gemmlab.kernel import prebuilt
from gemmlab.kernel.operands import ARRAYS
from gemmlab.ladder import Settings
from gemmlab.ladder.launch import Argument, Launch, MapOf, Workspace
from ptxsim.compile import headers, nvrtc

FACTORS = ("alpha", "beta")
MOST_MAPS = 256  # that are kept of one argument, by the address of its matrix


def loaded(text: str, filename: str, arch: str, settings: Settings, code_hash: str) -> GpuKernels:
    """CUDA C++ text, compiled for the GPU here; without CUDA's headers, the PTX that is in stock.
    Raises NoCompiler where neither will do."""
    import cupy

    options = options_for(settings)
    with nvrtc.signals_kept():
        if not headers.are_missing(text):
            # CuPy keeps compiled modules by source and options, and does not look into headers:
            # the fingerprint makes a changed header a changed option.
            every = (
                f"-arch={arch}", *nvrtc.COMMON_OPTIONS, *options, *nvrtc.header_options(),
                f"-DGEMMLAB_CODE={code_hash[-12:]}",
            )  # fmt: skip
            return GpuKernels(cupy.RawModule(code=text, options=every))
        try:
            ptx = prebuilt.find(text, filename, arch, options).ptx
        except nvrtc.NoCompiler:
            ptx = ""
        if not ptx:
            raise nvrtc.NoCompiler(f"{filename} for {arch}: {nvrtc.MISSING_HEADERS}")
        return from_ptx(ptx)


def from_cubin(cubin: bytes) -> GpuKernels:
    """Machine code that was made or changed elsewhere."""
    # NVRTC's binding hands over a cubin without its last byte, which is 0.
    return _from_file("kernel.cubin", cubin + b"\0")


def from_ptx(text: str) -> GpuKernels:
    """PTX, whatever compiler made it."""
    return _from_file("kernel.ptx", text.encode())


def _from_file(name: str, content: bytes) -> GpuKernels:
    import cupy

    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        module = cupy.RawModule(path=str(path))
        module.compile()  # it is read now, as long as the file is there
    return GpuKernels(module)


class GpuKernels:
    """The kernels of one module, and the workspaces that their launches share."""

    def __init__(self, module: Any) -> None:
        self._module = module  # a cupy.RawModule
        self._functions: dict[str, Any] = {}
        self._workspaces: dict[tuple[str, int], Any] = {}  # by name and stream
        self._outgrown: list[Any] = []  # workspaces that captured graphs may still use
        self.generation = 0  # how often workspaces were made

    def run(self, launches: Sequence[Launch], values: dict[str, Any]) -> None:
        """Enqueue them on the current stream, with CuPy arrays and NumPy scalars; do not wait."""
        PackedLaunches(self, launches, values).enqueue()

    def prepared(self, launches: Sequence[Launch], values: dict[str, Any]) -> Callable[[], None]:
        """What runs them each time it is called, with arguments that are made once. Workspaces
        among them are those of the stream that is current now."""
        packed = PackedLaunches(self, launches, values)

        def run(_kept: object = values) -> None:  # as long as arrays may be used
            packed.enqueue()

        return run

    def function(self, launch: Launch) -> Any:
        """The kernel of a launch, loaded."""
        if launch.entry not in self._functions:
            with nvrtc.signals_kept():  # CuPy compiles when it is first asked for a function
                function = self._module.get_function(launch.entry)
            self._functions[launch.entry] = function
        function, needed = self._functions[launch.entry], launch.shared_bytes
        # Past 48 KiB on request alone; of more products some kernels need more.
        if needed and needed > function.max_dynamic_shared_size_bytes:
            function.max_dynamic_shared_size_bytes = needed
        return function

    def variable(self, name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """What stands in a __device__ variable of the module, once the stream is done with it."""
        import cupy

        return cupy.asnumpy(cupy.ndarray(shape, dtype, memptr=self._module.get_global(name)))

    def workspace(self, workspace: Workspace) -> Any:
        """Kept, since nothing can be allocated while launches are captured into a graph."""
        import cupy

        key = workspace.name, cupy.cuda.get_current_stream().ptr
        memory = self._workspaces.get(key)
        if memory is None or memory.nbytes < workspace.bytes:
            if memory is not None:
                self._outgrown.append(memory)
            memory = (cupy.zeros if workspace.zeroed else cupy.empty)(workspace.bytes, np.uint8)
            self._workspaces[key] = memory
            self.generation += 1
        return memory


class PackedLaunches:
    """The launches of one product, packed once: arrays and factors can be exchanged. The caller
    keeps the arrays."""

    def __init__(
        self, kernels: GpuKernels, launches: Sequence[Launch], values: dict[str, Any]
    ) -> None:
        self._kernels = kernels
        self._lock = Lock()
        self._current_stream = sys.modules["cupy"].cuda.get_current_stream
        self._launches = [
            PackedLaunch(
                kernels.function(launch), launch.grid, launch.block,
                [self._packed(argument, values) for argument in launch.args],
                launch.shared_bytes, launch.early,
            )
            for launch in launches
        ]  # fmt: skip
        named = [
            (packed, at, argument)
            for packed, launch in zip(self._launches, launches, strict=True)
            for at, argument in enumerate(launch.args)
        ]
        # What is in them now: a call exchanges only what differs.
        self._pointers: dict[str, int | None] = {
            name: None for _, _, name in named if name in ARRAYS
        }
        self._pointers |= {a.matrix: None for _, _, a in named if isinstance(a, MapOf)}
        self._now: tuple[int, int, float, float] | None = None  # stream, generation, factors
        self._arrays = [(packed.cells[at], name) for packed, at, name in named if name in ARRAYS]
        self._factors = [(packed.cells[at], name) for packed, at, name in named if name in FACTORS]
        self._workspaces = [
            (packed.cells[at], argument)
            for packed, at, argument in named
            if isinstance(argument, Workspace)
        ]
        self._maps: list[tuple[PackedLaunch, int, MapOf, dict[int, Any]]] = [
            (packed, at, argument, {})
            for packed, at, argument in named
            if isinstance(argument, MapOf)
        ]

    def enqueue(self) -> None:
        """On the current stream."""
        stream = self._current_stream().ptr
        for launch in self._launches:
            launch(stream)

    def enqueue_with(self, arrays: dict[str, Any], alpha: float, beta: float) -> None:
        """With other arrays, which lie as the first ones do, and other factors. `arrays`: those of
        ARRAYS that the launches take, CuPy arrays or None. Workspaces are the current stream's."""
        with self._lock:
            stream = self._current_stream().ptr
            now = stream, self._kernels.generation, alpha, beta
            if now != self._now:
                for cell, name in self._factors:
                    cell.value = alpha if name == "alpha" else beta
                for cell, workspace in self._workspaces:
                    cell.value = self._kernels.workspace(workspace).data.ptr
                self._now = stream, self._kernels.generation, alpha, beta
            pointers = self._pointers
            for name, before in pointers.items():
                array = arrays[name]
                pointer = 0 if array is None else array.data.ptr
                if pointer != before:
                    self._exchange(name, array, pointer)
                    pointers[name] = pointer
            for launch in self._launches:
                launch(stream)

    def _exchange(self, name: str, array: Any, pointer: int) -> None:
        for cell, of_array in self._arrays:
            if of_array == name:
                cell.value = pointer
        for packed, at, argument, made in self._maps:
            if argument.matrix == name:
                if pointer not in made:
                    if len(made) >= MOST_MAPS:
                        made.clear()
                    matrix = argument.view(array)
                    new = tensor_map(matrix, argument.box, argument.swizzle, argument.element)
                    made[pointer] = new, new.ctypes.data
                packed.pass_instead(at, *made[pointer])

    def _packed(self, argument: Argument, values: dict[str, Any]) -> Any:
        if isinstance(argument, Workspace):
            return np.uint64(self._kernels.workspace(argument).data.ptr)
        if isinstance(argument, MapOf):
            matrix = argument.view(values[argument.matrix])
            return tensor_map(matrix, argument.box, argument.swizzle, argument.element)
        value = np.int32(argument) if isinstance(argument, int) else values[argument]
        pointer = getattr(getattr(value, "data", None), "ptr", None)
        if value is None or pointer is not None:
            return np.uint64(pointer or 0)
        return value
