"""Records what MMA-Sim, a model of tensor cores, gives for Blackwell's tcgen05.mma.

Not from hardware: MMA-Sim (arXiv 2511.10909, github.com/microsoft/MMA-Sim) is a model that its
authors compared with GPUs bit by bit. To make the record anew, in an environment of its own:

    pip install mmasim torch numpy
    python ptxsim/hardware/record_model_tcgen05.py ptxsim/tests/recorded/model_tcgen05.npz

The record has, under MMA-Sim's name of each operation and the kind of numbers, the patterns of the
operands `a` (m, k), `b` (n, k), `c` (m, n), of the scales `sa` and `sb`, and of the result `d`;
of the m rows, every eighth.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

ROWS, COLUMNS = 64, 8
KEPT = slice(None, None, 8)  # of the rows of A and of the sums
BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32,
    "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4,
}  # fmt: skip
EXPONENT_BITS = {"f16": (10, 5), "bf16": (7, 8), "tf32": (23, 8), "f32": (23, 8), "e5m2": (2, 5)}
NARROW = ("e5m2", "e4m3", "e3m2", "e2m3", "e2m1")
# normal: near 1; wide: any exponent, all finite; any: every pattern; zeros: near 1, many are zero
NUMBERS = ("normal", "wide", "any", "zeros")


def operations() -> list[tuple[str, str, tuple[str, str, str], str, int]]:
    """(name, kind, types of d, a, b, type of the scales or "", elements of a scale)"""
    plain = [("tf32", 8, ("f32", "tf32", "tf32"))]
    plain += [("f16", 16, (d, t, t)) for d, t in (("f32", "f16"), ("f32", "bf16"), ("f16", "f16"))]
    plain += [
        ("f8f6f4", 32, (d, a, b)) for d in ("f32", "f16") for a in NARROW for b in NARROW
    ]  # fmt: skip
    scaled = [("mxf8f6f4", 32, 32, (a, b), "ue8m0") for a in NARROW for b in NARROW]
    scaled += [
        (kind, 64, block, ("e2m1", "e2m1"), scale)
        for kind, block, scale in (
            ("mxf4", 32, "ue8m0"), ("mxf4nvf4", 32, "ue8m0"),
            ("mxf4nvf4", 16, "ue8m0"), ("mxf4nvf4", 16, "ue4m3"),
        )
    ]  # fmt: skip
    return [
        (f"m{ROWS}n{COLUMNS}k{k}.kind::{kind}.{'.'.join(types)}", kind, types, "", 0)
        for kind, k, types in plain
    ] + [
        (f"m128n{COLUMNS}k{k}.kind::{kind}.block{block}.f32.{a}.{b}.{scale}", kind,
         ("f32", a, b), scale, block)
        for kind, k, block, (a, b), scale in scaled
    ]  # fmt: skip


def patterns(rng, kind: str, shape: tuple[int, int], numbers: str) -> np.ndarray:
    bits = BITS[kind]
    if numbers in ("any", "wide") or bits < 8:
        made = rng.integers(0, 1 << bits, shape, dtype=np.uint64).astype(np.uint32)
        if numbers == "wide" and kind in EXPONENT_BITS:  # the largest exponent is for infinities
            first, count = EXPONENT_BITS[kind]
            top = np.uint32(((1 << count) - 1) << first)
            made = np.where(made & top == top, made ^ np.uint32(1 << first), made)
        if numbers == "wide" and kind == "e4m3":
            made = np.where(made & 0x7F == 0x7F, made ^ 1, made)
    else:
        made = rounded(rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4, shape), kind)
    return np.where(rng.random(shape) < 0.4, 0, made) if numbers == "zeros" else made


def rounded(values, kind: str) -> np.ndarray:
    import torch

    if BITS[kind] == 32:
        return values.astype(np.float32).view(np.uint32)
    size = BITS[kind] // 8
    held = (
        torch.from_numpy(values).to(torch_types()[kind]).view([torch.uint8, torch.int16][size - 1])
    )
    return held.numpy().view(f"u{size}").astype(np.uint32)


def torch_types() -> dict:
    import torch

    return {
        "f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "f32": torch.float32,
        "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
        "ue8m0": torch.float8_e8m0fnu, "ue4m3": torch.float8_e4m3fn,
    }  # fmt: skip


def tensor(made: np.ndarray, kind: str, in_pairs: bool = False):
    """As MMA-Sim takes it: 4-bit elements in bits 2 to 5 of a byte, or two of them in one."""
    import torch

    if in_pairs:
        return torch.from_numpy((made[:, 0::2] << 4 | made[:, 1::2]).astype(np.uint8))
    if BITS.get(kind, 8) < 8:
        return torch.from_numpy((made << (2 if kind == "e2m1" else 0)).astype(np.uint8))
    size = BITS.get(kind, 8) // 8
    held = np.ascontiguousarray(made.astype(f"u{size}")).view(["u1", "i2", "", "i4"][size - 1])
    return torch.from_numpy(held).view(torch_types()[kind])


def results() -> dict[str, np.ndarray]:
    import torch
    from mmasim.nv_ptx import TCGen05MMA, TCGen05MMABlockScale

    rng, record = np.random.default_rng(2511), {}
    for name, _, (d, a, b), scale, block in operations():
        modelled = (TCGen05MMABlockScale if scale else TCGen05MMA)("Blackwell", name)
        m, n, k = modelled.m, modelled.n, modelled.k
        for numbers in NUMBERS:
            given = {
                "a": patterns(rng, a, (m, k), numbers), "b": patterns(rng, b, (n, k), numbers),
                "c": patterns(rng, d, (m, n), numbers),
            }  # fmt: skip
            pairs = k == 64
            args = [
                tensor(given["a"], a, pairs),
                tensor(given["b"], b, pairs).T,
                tensor(given["c"], d),
            ]
            if scale:
                near_one = (120, 135) if scale == "ue8m0" else (40, 80)
                low, high = (0, 256) if numbers == "any" else near_one
                for which, rows in (("sa", m), ("sb", n)):
                    given[which] = rng.integers(low, high, (rows, k // block)).astype(np.uint32)
                args += [tensor(given["sa"], scale), tensor(given["sb"], scale).T]
            held = modelled(*args).contiguous().view(torch.int16 if d == "f16" else torch.int32)
            given["d"] = held.numpy().view("u2" if d == "f16" else "u4")
            for which, values in given.items():
                values = values if which in ("b", "sb") else values[KEPT]
                size = "u1" if values.max() < 256 else "u2" if values.max() < 65536 else "u4"
                record[f"{name}.{numbers}.{which}"] = values.astype(size)
    return record


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.savez_compressed(Path(sys.argv[1]), **results())
