"""Record what MMA-Sim, a published model of tensor cores, computes for other GPUs than the H200.

    python ptxsim/hardware/record_model_mma_sync.py OUTDIR

writes OUTDIR/model_mma_sync.npz: results of mma.sync as registers, (registers, 32, warps), by
"GENERATION FORM". Needs the package mmasim 2.1.1 with PyTorch, and no GPU. The model is that of
Xie et al., arXiv 2511.10909. Generations with the same rules have one entry, and Hopper none, for
recorded/tensor.npz has an H200's own bits. See test_other_gpus.py.
"""

from __future__ import annotations

import sys
import types
from itertools import product
from pathlib import Path

import numpy as np

import record_tensor as record
from ptxsim.instructions.tensor import _mma
from ptxsim.tensor_cores.adding import BITS

WARPS = 14  # each kind of operands twice
EIGHT_BITS = ("e4m3", "e5m2")


def forms() -> dict[str, dict[str, record.Product]]:
    """generation -> the forms of mma.sync that are recorded for it."""
    floats = {
        name: form
        for name, form in record.products().items()
        if name.startswith("mma.") and not form.integral
    }
    eight = {}
    for (shape, a, b), (d, n), kind in product(
        (("m16n8k16", 2, 1), ("m16n8k32", 4, 2)), (("f32", 4), ("f16", 2)), EIGHT_BITS
    ):
        kinds = (d, kind, "e4m3", d)
        name = f"mma.sync.aligned.{shape}.row.col.{'.'.join(kinds)}"
        eight[name] = record.Product(name, kinds, (n, a, b, n))
    return {"Ampere": floats, "Ada Lovelace": eight, "RTX Blackwell": eight}


def operands(form: record.Product) -> list[np.ndarray]:
    """Registers of a, b and c: uint32 (registers, 32, warps) each."""
    if form.types[1] not in EIGHT_BITS:
        arrays = record.operands(form)
    else:
        words = record.Words(form.opcode)
        # All patterns, and in every other warp only the lower half of exponents.
        masks = np.resize([0xFFFFFFFF, 0xBFBFBFBF], (WARPS, 1, 1)).astype(np.uint32)
        arrays = [words(WARPS, count, record.WARP) & masks for count in form.registers[1:3]]
        c = record.Product("c", (form.types[0],) * 4, (form.registers[3],) * 4)
        arrays.append(record.operands(c)[2])
    return [np.ascontiguousarray(array[:WARPS].transpose(1, 2, 0)) for array in arrays]


def as_torch(patterns: np.ndarray, ptx_type: str):
    import torch

    words = np.ascontiguousarray(patterns.astype(f"u{BITS[ptx_type] // 8}"))
    of_types = {
        "f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn,
        "e5m2": torch.float8_e5m2,
    }  # fmt: skip
    whole = torch.from_numpy(words.view(f"i{words.itemsize}"))
    return whole.view(of_types.get(ptx_type, torch.float32))


def computed(generation: str, form: record.Product) -> np.ndarray:
    """The result registers that MMA-Sim gives."""
    from mmasim.nv_ptx import MMA

    shape = form.opcode.split(".")[3]
    fragments = _mma(shape, (), *form.types).fragments
    a, b, c = (
        as_torch(fragment.matrix(registers), kind)
        for fragment, registers, kind in zip(
            fragments[1:], operands(form), form.types[1:], strict=True
        )
    )
    model = MMA(generation, ".".join((shape, *form.types)))
    results = []
    for warp in range(WARPS):
        d = model(a[..., warp].clone(), b[..., warp].clone(), c[..., warp].clone()).numpy()
        results.append(d.view(f"u{d.itemsize}").astype(np.uint32))
    return fragments[0].fill(np.stack(results, axis=-1))


def main(outdir: Path) -> None:
    # It compiles C++ at once, for float64 alone.
    without_doubles = types.ModuleType("mmasim.arithmetic.fma")
    without_doubles.MMA_FMA = object
    sys.modules[without_doubles.__name__] = without_doubles
    results = {
        f"{generation} {name}": computed(generation, form)
        for generation, of_generation in forms().items()
        for name, form in of_generation.items()
    }
    np.savez_compressed(outdir / "model_mma_sync.npz", **results)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
