"""A launch on the GPU, with the arguments of one in the simulator."""

import corpus
import numpy as np

from ptxsim.compile.nvrtc import COMMON_OPTIONS
from ptxsim.memory.global_memory import Uninitialised


def launch(
    source: str,
    entry: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: list,
    *,
    arch: str,
    options: tuple[str, ...] = (),
    shared_bytes: int = 0,
) -> None:
    """As simulator.launch, compiled as the simulator compiles: the arrays are changed in place.

    Raises the errors of CuPy, of the launch and of what the kernel did.
    """
    import cupy

    # CuPy keeps compiled modules by source and options, and does not look into headers.
    text, options = corpus.self_contained(source), (f"-arch={arch}", *COMMON_OPTIONS, *options)
    kernel = cupy.RawModule(code=text, options=options).get_function(entry)
    if shared_bytes:
        kernel.max_dynamic_shared_size_bytes = shared_bytes
    given = [_given(arg) for arg in args]
    kernel(grid, block, tuple(given), shared_mem=shared_bytes)
    cupy.cuda.runtime.deviceSynchronize()
    for arg, on_gpu in zip(args, given, strict=True):
        if isinstance(on_gpu, cupy.ndarray):
            array = arg.array if isinstance(arg, Uninitialised) else arg
            array[...] = cupy.asnumpy(on_gpu)


def _given(arg):
    import cupy

    if isinstance(arg, Uninitialised):
        return cupy.empty(arg.array.shape, arg.array.dtype)
    if isinstance(arg, np.ndarray):
        return cupy.asarray(arg)
    return np.float32(arg) if isinstance(arg, float) else np.int32(arg)
