"""Each instruction as lines of Python: a function `op_NAME` for `NAME.…` of PTX.

The function gets the Writer of translate.py, the instruction and its operands, and adds lines to
the Writer. For a form that it does not know it raises ptx.Unknown.
"""

from ptxsim.instructions import (
    bits,
    blackwell,
    conversions,
    copies,
    memory,
    numbers,
    synchronization,
    tensor,
    textures,
)

MODULES = [bits, blackwell, conversions, copies, memory, numbers, synchronization, tensor, textures]
TABLE = {
    name.removeprefix("op_"): function
    for module in MODULES
    for name, function in vars(module).items()
    if name.startswith("op_")
}
