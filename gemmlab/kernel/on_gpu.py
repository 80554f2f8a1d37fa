"""The launches of a product on a GPU, through cupy.RawModule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gemmlab.cuda.driver import early_launch, tensor_map
from gemmlab.cuda.options import options_for
from gemmlab.kernel import prebuilt
from gemmlab.ladder import Settings
from gemmlab.ladder.launch import Argument, Launch, MapOf, Workspace
from ptxsim.compile import headers, nvrtc
from ptxsim.compile.nvrtc import NoCompiler


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
        self.prepared(launches, values)()

    def prepared(self, launches: Sequence[Launch], values: dict[str, Any]) -> Callable[[], None]:
        """What runs them each time it is called, with arguments that are made once. Workspaces
        among them are those of the stream that is current now."""
        calls = [self._call(launch, values) for launch in launches]

        def run() -> None:
            for call in calls:
                call()

        return run

    def _call(self, launch: Launch, values: dict[str, Any]) -> Callable[[], None]:
        function, grid, block = self.function(launch), launch.grid, launch.block
        args = tuple(self._argument(name, values) for name in launch.args)
        if launch.early:
            return early_launch(function, grid, block, args, launch.shared_bytes)
        return partial(function, grid, block, args, shared_mem=launch.shared_bytes)

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

    def _argument(self, argument: Argument, values: dict[str, Any]) -> Any:
        if isinstance(argument, Workspace):
            return self._workspace(argument)
        if isinstance(argument, MapOf):
            return tensor_map(values[argument.matrix], argument.box, argument.swizzle)
        return np.uint64(0) if values[argument] is None else values[argument]

    def _workspace(self, workspace: Workspace) -> Any:
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
