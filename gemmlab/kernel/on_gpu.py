"""The launches of a product on a GPU, through cupy.RawModule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import numpy as np

from gemmlab.cuda.driver import PackedLaunch, tensor_map
from gemmlab.cuda.options import options_for
from gemmlab.kernel import prebuilt
from gemmlab.ladder import Settings
from gemmlab.ladder.launch import MATRICES, Argument, Launch, MapOf, Workspace
from ptxsim.compile import headers, nvrtc
from ptxsim.compile.nvrtc import NoCompiler

ARRAYS = (*MATRICES, "bias", "scale_a", "scale_b")  # as they are named in launches
FACTORS = ("alpha", "beta")
MOST_MAPS = 256  # tensor maps kept by the launches of one product


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
        except NoCompiler:
            ptx = ""
        if not ptx:
            raise NoCompiler(f"{filename} for {arch}: {nvrtc.MISSING_HEADERS}")
        return _from_file("kernel.ptx", ptx.encode())


def from_cubin(cubin: bytes) -> GpuKernels:
    """Machine code that was made or changed elsewhere."""
    # NVRTC's binding hands over a cubin without its last byte, which is 0.
    return _from_file("kernel.cubin", cubin + b"\0")


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

    def run(self, launches: Sequence[Launch], values: dict[str, Any]) -> None:
        """Enqueue them on the current stream, with CuPy arrays and NumPy scalars; do not wait."""
        self.packed(launches, values).enqueue()

    def prepared(self, launches: Sequence[Launch], values: dict[str, Any]) -> Callable[[], None]:
        """What runs them each time it is called, with arguments that are made once. Workspaces
        among them are those of the stream that is current now."""
        packed = self.packed(launches, values)

        def run(_kept: object = values) -> None:  # as long as arrays may be used
            packed.enqueue()

        return run

    def packed(self, launches: Sequence[Launch], values: dict[str, Any]) -> PackedLaunches:
        """The launches, with their arguments packed. The caller keeps the arrays."""
        return PackedLaunches(self, launches, values)

    def function(self, launch: Launch) -> Any:
        """The kernel of a launch, loaded."""
        if launch.entry not in self._functions:
            with nvrtc.signals_kept():  # CuPy compiles when it is first asked for a function
                function = self._module.get_function(launch.entry)
            if launch.shared_bytes:  # past 48 KiB on request alone
                function.max_dynamic_shared_size_bytes = launch.shared_bytes
            self._functions[launch.entry] = function
        return self._functions[launch.entry]

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
        return memory


class PackedLaunches:
    """The launches of one product, packed once: arrays and factors can be exchanged."""

    def __init__(
        self, kernels: GpuKernels, launches: Sequence[Launch], values: dict[str, Any]
    ) -> None:
        self._kernels = kernels
        self._maps: dict[tuple[MapOf, int], np.ndarray] = {}
        self._lock = Lock()
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
        self._by_address = [entry for entry in named if entry[2] in ARRAYS]
        self._by_value = [entry for entry in named if entry[2] in FACTORS]
        self._made = [entry for entry in named if not isinstance(entry[2], str)]

    def enqueue(self) -> None:
        """On the current stream."""
        import cupy

        stream = cupy.cuda.get_current_stream().ptr
        for launch in self._launches:
            launch(stream)

    def enqueue_with(self, arrays: dict[str, Any], alpha: float, beta: float) -> None:
        """With other arrays, which lie as the first ones do, and other factors. `arrays`: those of
        ARRAYS that the launches take, CuPy arrays or None. Workspaces are the current stream's."""
        factors = {"alpha": alpha, "beta": beta}
        with self._lock:
            for packed, at, name in self._by_address:
                array = arrays[name]
                packed.set(at, 0 if array is None else array.data.ptr)
            for packed, at, name in self._by_value:
                packed.set(at, factors[name])
            for packed, at, argument in self._made:
                packed.set(at, self._packed(argument, arrays))
            self.enqueue()

    def _packed(self, argument: Argument, values: dict[str, Any]) -> Any:
        if isinstance(argument, Workspace):
            return np.uint64(self._kernels.workspace(argument).data.ptr)
        if isinstance(argument, MapOf):
            return self._map(argument, values[argument.matrix])
        value = values[argument]
        pointer = getattr(getattr(value, "data", None), "ptr", None)
        if value is None or pointer is not None:
            return np.uint64(pointer or 0)
        return value

    def _map(self, argument: MapOf, array: Any) -> np.ndarray:
        key = argument, array.data.ptr
        if key not in self._maps:
            if len(self._maps) >= MOST_MAPS:
                self._maps.clear()
            self._maps[key] = tensor_map(array, argument.box, argument.swizzle)
        return self._maps[key]
