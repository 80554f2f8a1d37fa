"""Record what an NVIDIA GPU's tensor cores compute of float64.

    python ptxsim/hardware/record_doubles.py OUTDIR

writes OUTDIR/doubles.npz: by the shape of mma.sync, the sums of each lane, (products, 32, sums).
Operands are not stored: `inputs` makes the same ones anywhere. Needs CuPy and a GPU of compute
capability 9.0 or later.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

# shape -> how many numbers of A, of B, and of the sums a lane holds
SHAPES = {"m8n8k4": (1, 1, 2), "m16n8k4": (2, 1, 4), "m16n8k8": (4, 2, 4), "m16n8k16": (8, 4, 4)}
MADE, KEPT = 48, slice(None, None, 3)  # of the products that are made, a third
SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 5e-324, 1.7e308]


def source(shape: str) -> str:
    a, b, c = SHAPES[shape]

    def registers(first: int, count: int) -> str:
        return "{" + ",".join(f"%{first + i}" for i in range(count)) + "}"

    outputs = ", ".join(f'"+d"(c[{i}])' for i in range(c))
    given = [f'"d"({name}[{i}])' for name, n in (("a", a), ("b", b)) for i in range(n)]
    return f"""extern "C" __global__ void {shape}(const double* A, const double* B, const double* C,
                                       double* D) {{
    const int row = blockIdx.x * 32 + threadIdx.x;
    double a[{a}], b[{b}], c[{c}];
    for (int i = 0; i < {a}; ++i) a[i] = A[row * {a} + i];
    for (int i = 0; i < {b}; ++i) b[i] = B[row * {b} + i];
    for (int i = 0; i < {c}; ++i) c[i] = C[row * {c} + i];
    asm volatile("mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64 "
                 "{registers(0, c)}, {registers(c, a)}, {registers(c + a, b)}, {registers(0, c)};"
                 : {outputs} : {", ".join(given)});
    for (int i = 0; i < {c}; ++i) D[row * {c} + i] = c[i];
}}
"""


def inputs() -> dict[str, list[np.ndarray]]:
    """shape -> A, B and C, each (products, 32, numbers of a lane): of all magnitudes, and special
    values among them."""
    random = np.random.default_rng(3)
    arrays: dict[str, list[np.ndarray]] = {}
    for shape, counts in SHAPES.items():
        for count in counts:
            x = random.standard_normal((MADE, 32, count))
            x[8:24] *= 2.0 ** random.integers(-40, 40, (16, 32, count))
            rare = random.random((8, 32, count)) < 0.1
            x[24:32] = np.where(rare, random.choice(SPECIAL, (8, 32, count)), x[24:32])
            x[32:40] *= 2.0 ** random.integers(-540, -500, (8, 32, count))
            arrays.setdefault(shape, []).append(np.ascontiguousarray(x[KEPT]))
    return arrays


def main(outdir: Path) -> None:
    import cupy

    from record_arithmetic import provenance

    arrays = {}
    for shape, (A, B, C) in inputs().items():
        kernel = cupy.RawModule(code=source(shape), options=("-std=c++17",)).get_function(shape)
        sums = cupy.zeros(C.shape)
        kernel((len(C),), (32,), (*map(cupy.asarray, (A, B, C)), sums))
        arrays[shape] = sums.get()
    about = {**provenance(cupy), "command": "python ptxsim/hardware/record_doubles.py OUTDIR"}
    np.savez_compressed(outdir / "doubles.npz", **arrays, about=np.array(json.dumps(about)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
