"""The sum over ranks on a GPU, by 21_rank_sum.cu: the bits of ByKernel.total in NumPy."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from gemmlab.cuda.options import options_for
from gemmlab.folders import kernel_file
from gemmlab.ladder.precision import BFLOAT16, FLOAT16, FLOAT32, ElementType
from ptxsim.compile.nvrtc import signals_kept

PATH, ENTRY = kernel_file("21_rank_sum.cu"), "rank_sum"
THREADS, BLOCKS_PER_SM = 256, 8
ELEMENTS = (FLOAT32, FLOAT16, BFLOAT16)  # by the value of DTYPE


def macros(terms: int, element: ElementType) -> dict[str, int]:
    return {"TERMS": terms, "DTYPE": ELEMENTS.index(element)}


def prepared(
    terms: Sequence[Any], into: Any, element: ElementType, sm_count: int
) -> Callable[[], None]:
    """What adds CuPy arrays, contiguous and of one size, on the stream that is current then."""
    import cupy

    addresses = cupy.asarray([term.data.ptr for term in terms], np.uint64)
    arguments = (addresses, into, np.int64(into.size))
    launch = _kernel(len(terms), element)
    return partial(launch, (BLOCKS_PER_SM * sm_count,), (THREADS,), arguments)


@cache
def _kernel(terms: int, element: ElementType):
    """Compiled and loaded on the GPU of this process."""
    import cupy

    options = options_for(macros(terms, element))
    module = cupy.RawModule(code=PATH.read_text("utf-8"), options=options)
    with signals_kept():
        return module.get_function(ENTRY)
