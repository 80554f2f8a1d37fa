"""Compile kernels/cutlass_sm80.cu and cutlass_sm90.cu to recorded/cutlass_*.ptx.xz.

    python ptxsim/tests/compile_cutlass.py CUTLASS/include CCCL/include

The first folder is that of CUTLASS (cutlass_library/source/include of the wheel nvidia-cutlass
4.2.0.0), the second that of CUDA's C++ library (nvidia/cu13/include of nvidia-cuda-cccl 13.0.85).
The PTX is without line numbers and variables that nobody uses. CUTLASS' licence, BSD-3-Clause, is
in recorded/cutlass_LICENSE.txt.
"""

import lzma
import re
import sys
from pathlib import Path

from ptxsim.compile import nvrtc

HERE = Path(__file__).parent
VARIABLE = re.compile(r"^\.(?:global|const) [^=;\n]*?([\w$]+)(?:\[\d*\])?(?: = [^;\n]*)?;\n", re.M)
OF_LINES = re.compile(
    r"^(?:\s*\.(?:loc|file)\b.*|\$L__(?:tmp|func_\w+|info_string)\d+:|\s*//.*)\n", re.M
)


def without_lines(ptx: str) -> str:
    ptx = OF_LINES.sub("", ptx.partition("\n\t.section\t.debug")[0])
    return VARIABLE.sub(lambda variable: variable[0] if ptx.count(variable[1]) > 1 else "", ptx)


def main(cutlass: str, cccl: str) -> None:
    options = ("-default-device", f"-I{cutlass}", f"-I{cccl}", f"-I{cccl}/cccl")
    for name, arch in (("cutlass_sm80", "sm_80"), ("cutlass_sm90", "sm_90a")):
        source = (HERE / "kernels" / f"{name}.cu").read_text(encoding="utf-8")
        ptx = nvrtc.compile_source(source, f"{name}.cu", arch=arch, options=options).ptx
        path = HERE / "recorded" / f"{name}.ptx.xz"
        path.write_bytes(lzma.compress(without_lines(ptx).encode(), preset=9))


if __name__ == "__main__":
    main(*sys.argv[1:])
