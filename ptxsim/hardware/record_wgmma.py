"""Record what an NVIDIA H200 computes in wgmma and in FP8 mma.sync, and how operands lie.

    python ptxsim/hardware/record_wgmma.py OUTDIR

writes OUTDIR/wgmma.npz. Needs CuPy, ncu (for the counters) and a GPU of compute capability 9.0.
Each form of an instruction becomes a small kernel, whose inline assembly is that instruction alone.
The simulator computes the same from the same operands: see test_wgmma.py.

The file holds, by name: `wgmma NAME`, registers of the sums of the first cases, uint32 (cases,
registers, 128), and `wgmma# NAME`, a digest of each of all cases; `mma NAME` and `mma# NAME`, the
same of mma.sync (warps, registers, 32); `map# NAME`, a digest for each descriptor of which element
of shared memory is where in the operand; `cvt NAME`, results of conversions; `kernel NAME`, C of a
whole kernel; and `counters`, Nsight Compute's metrics of one launch each, as JSON. Operands are not
stored: they are made anew.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

import record_tensor as tensor
from record_tensor import ARCH, Words

u4, u8 = np.uint32, np.uint64
GROUP_THREADS, WARP, ROWS = 128, 32, 64
LINE_BYTES = 128  # of a row of A or a column of B in shared memory: four steps of K
KEPT = 13  # cases of which the sums are kept, not digests alone: one of each kind
# type -> (bits, exponent bits, stored significand bits)
FORMATS = {
    "f16": (16, 5, 10), "bf16": (16, 8, 7), "tf32": (32, 8, 23), "f32": (32, 8, 23),
    "e4m3": (8, 4, 3), "e5m2": (8, 5, 2),
}  # fmt: skip
BITS = {kind: bits for kind, (bits, *_) in FORMATS.items()} | {"s32": 32, "s8": 8, "u8": 8}
CODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}  # of swizzles, in a descriptor


@dataclass(frozen=True)
class Form:
    """wgmma.mma_async: D (64×n) += A (64×k) B (k×n), `steps` times along k.

    `types`: of d, a, b; `registers`: whether A comes from there; `scale_d`: False to begin at 0;
    `alone`: whether all products are 0, so that D is what becomes of the old sums alone.
    """

    types: tuple[str, str, str]
    n: int = 8
    registers: bool = False
    saturate: bool = False
    signs: tuple[int, int] = (1, 1)
    transposed: tuple[int, int] = (0, 0)
    steps: int = 1
    scale_d: bool = True
    alone: bool = False

    @property
    def integral(self) -> bool:
        return self.types[0] == "s32"

    @property
    def k(self) -> int:
        return 256 // BITS[self.types[1]]

    @property
    def opcode(self) -> str:
        d, a, b = self.types
        sat = ".satfinite" if self.saturate else ""
        return f"wgmma.mma_async.sync.aligned.m64n{self.n}k{self.k}{sat}.{d}.{a}.{b}"

    @property
    def entry(self) -> str:
        """One kernel for both values of scale_d."""
        rest = [*self.types, f"n{self.n}"]
        rest += ["registers"] * self.registers + ["satfinite"] * self.saturate
        rest += [f"signs{''.join('-' if s < 0 else '+' for s in self.signs)}".replace("-", "m")
                 .replace("+", "p")] * (self.signs != (1, 1))  # fmt: skip
        rest += [f"transposed{self.transposed[0]}{self.transposed[1]}"] * any(self.transposed)
        rest += [f"steps{self.steps}"] * (self.steps > 1)
        return "k_" + "_".join(rest)

    @property
    def name(self) -> str:
        rest = " alone" * self.alone + " from 0" * (not self.scale_d)
        return self.entry[2:].replace("_", " ") + rest

    @property
    def sums(self) -> int:
        """Registers of D."""
        return self.n * BITS[self.types[0]] // 64


FLOATS = [
    ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
    *((d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
]  # fmt: skip
INTEGERS = [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
WIDTHS = tuple(range(8, 257, 8))
INTEGER_WIDTHS = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256)
SOME_WIDTHS = (16, 24, 64, 144, 256)


def forms() -> dict[str, tuple[Form, int]]:
    """Name -> (form, how many cases)."""
    chosen = []
    for types in FLOATS:
        plain = Form(types)
        chosen += [(plain, 104), (replace(plain, registers=True), 26),
                  (replace(plain, alone=True), 13),
                  (replace(plain, steps=4), 26), (replace(plain, scale_d=False), 26),
                  (replace(plain, signs=(-1, 1)), 26), (replace(plain, signs=(1, -1)), 26),
                  (replace(plain, registers=True, signs=(-1, -1)), 13)]  # fmt: skip
        widths = WIDTHS[1:] if types[1] == "bf16" else SOME_WIDTHS
        chosen += [(replace(plain, n=n), 2) for n in widths]
        chosen += [(replace(plain, n=n, registers=True), 2) for n in (64, 256)]
        if BITS[types[1]] == 16:
            chosen += [(replace(plain, n=n, transposed=(a, b)), 2)
                      for n in (64, 256) for a, b in ((0, 1), (1, 0), (1, 1))]  # fmt: skip
    for types in INTEGERS:
        for plain in (Form(types), Form(types, saturate=True)):
            chosen += [(plain, 13), (replace(plain, registers=True), 6),
                      (replace(plain, steps=4), 6), (replace(plain, scale_d=False), 4)]  # fmt: skip
        widths = INTEGER_WIDTHS[1:] if types == INTEGERS[0] else SOME_WIDTHS
        chosen += [(Form(types, n=n), 2) for n in widths]
    return {form.name: (form, cases) for form, cases in chosen}


# --- kernels --------------------------------------------------------------------------------------


def wgmma_source(form: Form) -> str:
    """A block is one case. Registers lie in memory as (cases, registers, 128)."""
    d = form.sums
    places = ", ".join(f"%{i}" for i in range(d))
    calls, inputs, at = [], [], d
    for step in range(form.steps):
        if form.registers:
            a = "{" + ", ".join(f"%{at + i}" for i in range(4)) + "}"
            inputs += [f'"r"(a[{step}][{i}])' for i in range(4)]
            at += 4
        else:
            a, at = f"%{at}", at + 1
            inputs.append(f'"l"(da + {2 * step})')
        b, at = f"%{at}", at + 1
        inputs.append(f'"l"(db + {2 * step})')
        scale = "p" if step == 0 else "1"
        text = f"{form.opcode} {{{places}}}, {a}, {b}, {scale}"
        if not form.integral:
            text += f", {form.signs[0]}, {form.signs[1]}"
            if BITS[form.types[1]] == 16:
                text += (
                    f", {form.transposed[1]}"
                    if form.registers
                    else (f", {form.transposed[0]}, {form.transposed[1]}")
                )
        calls.append(text + ";")
    inputs.append('"r"(scale)')
    body = f"{{ .reg .pred p; setp.ne.b32 p, %{at}, 0; {' '.join(calls)} }}"
    outputs = ", ".join(f'"+r"(d[{i}])' for i in range(d))
    fetch = (
        f"""    unsigned a[{form.steps}][4];
    for (int s = 0; s < {form.steps}; s++) for (int i = 0; i < 4; i++)
        a[s][i] = A[((blockIdx.x * {form.steps} + s) * 4 + i) * 128 + threadIdx.x];
"""
        if form.registers
        else ""
    )
    return f"""
extern "C" __global__ void __launch_bounds__(128) {form.entry}(
    const unsigned* image, int words, int apart, const unsigned* A, const unsigned* C, unsigned* D,
    const unsigned long long* descriptors, int scale)
{{
    extern __shared__ __align__(1024) unsigned s[];
    for (int i = threadIdx.x; i < words; i += 128) s[i] = image[blockIdx.x * apart + i];
    unsigned d[{d}];
    for (int i = 0; i < {d}; i++) d[i] = C[(blockIdx.x * {d} + i) * 128 + threadIdx.x];
{fetch}    unsigned long long base = (unsigned)__cvta_generic_to_shared(s) >> 4;
    unsigned long long da = descriptors[blockIdx.x * 2] + base;
    unsigned long long db = descriptors[blockIdx.x * 2 + 1] + base;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{body}" : {outputs} : {", ".join(inputs)});
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < {d}; i++) D[(blockIdx.x * {d} + i) * 128 + threadIdx.x] = d[i];
}}
"""


def descriptor(start: int, swizzle: str, leading: int, stride: int, base_offset: int = 0) -> int:
    """Offsets in bytes; `start` from the beginning of shared memory, which the kernel adds."""
    return (start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | base_offset << 49
            | CODES[swizzle] << 62)  # fmt: skip


# --- operands -------------------------------------------------------------------------------------

# What the numbers of a case are like, in turn: (how wide their exponents spread about 1, None as
# wide as can be; how many of 16 are zero; how many of 64 are special; what else). "bits": all
# patterns; "top": the largest exponents.
KINDS = (
    (2, 0, 0, ""), (12, 0, 0, ""), (30, 4, 0, ""), (None, 12, 0, ""), ("bits", 0, 0, ""),
    (0, 2, 0, ""), (6, 0, 1, ""), (None, 13, 0, ""), ("top", 6, 0, ""), (6, 0, 0, "cancel"),
    (6, 2, 0, "against"), (None, 0, 0, ""), (16, 10, 0, "cancel"),
)  # fmt: skip
assert len(KINDS) == KEPT


def floats(words: Words, ptx_type: str, kind: int, shape, factor: int = 1) -> np.ndarray:
    """Patterns of bits, uint32. `factor`: how many times as wide the exponents spread."""
    bits, exponent_bits, stored = FORMATS[ptx_type]
    spread, zeros, specials, _ = KINDS[kind]
    if spread == "bits":
        return words(*shape) >> u4(32 - bits)
    top = (1 << exponent_bits) - 1
    bias = top >> 1
    most = top if ptx_type == "e4m3" else top - 1  # e4m3 has numbers, not infinities, there
    if spread is None:
        exponent = words.below(most + 1, *shape)
    elif spread == "top":
        exponent = most - words.below(3, *shape)
    elif spread == 0:
        exponent = words.below(4, *shape)
        exponent += words.below(2, *shape) * words.below(2, *shape) * (bias - 2)
    else:
        exponent = bias - spread * factor // 2 + words.below(spread * factor + 1, *shape)
    exponent = np.clip(exponent, 0, most).astype(u4)
    sign = words.below(2, *shape).astype(u4) << u4(bits - 1)
    pattern = sign | exponent << u4(stored) | words(*shape) >> u4(32 - stored)
    if ptx_type == "e4m3":
        pattern -= pattern & u4(0x7F) == u4(0x7F)
    pattern = np.where(words.below(16, *shape) < zeros, sign, pattern)
    infinite = u4(0x7F if ptx_type == "e4m3" else top << stored)
    nan = infinite | u4(1 << (stored - 1))
    special = np.where(words.below(4, *shape) == 0, nan, infinite) | sign
    return np.where(words.below(64, *shape) < specials, special, pattern).astype(u4)


def values(bits: np.ndarray, ptx_type: str) -> np.ndarray:
    """float64 of patterns that are finite."""
    count, exponent_bits, stored = FORMATS[ptx_type]
    bias = (1 << exponent_bits - 1) - 1
    exponent = (bits >> u4(stored) & u4((1 << exponent_bits) - 1)).astype(np.int64)
    fraction = (bits & u4((1 << stored) - 1)).astype(np.float64)
    size = np.ldexp(fraction + np.where(exponent > 0, 2.0**stored, 0),
                    (np.maximum(exponent, 1) - bias - stored).astype(np.int32))  # fmt: skip
    return np.where(bits >> u4(count - 1) & u4(1), -size, size)


def factors(words: Words, form, kind: int, rows: int, cols: int, width: int):
    """A (rows, width), B (cols, width) and C (rows, cols): patterns, uint32. `one`: types, k."""
    dt, at, bt = form.types
    if form.types[0] == "s32":
        A, B, C = words(rows, width) >> u4(24), words(cols, width) >> u4(24), words(rows, cols)
        if kind % 3 == 1:  # near the ends
            C = np.where(C & u4(1), u4(0x7FFF0000), u4(0x80000000)) | C & u4(0xFFFF)
        if kind % 3 == 2:  # and as large as can be
            A, B = np.where(A & u4(1), u4(0x7F), u4(0xFF)), np.where(B & u4(1), u4(0x7F), u4(0x80))
        return A.astype(u4), B.astype(u4), C.astype(u4)
    A, B = floats(words, at, kind, (rows, width)), floats(words, bt, kind, (cols, width))
    C = floats(words, dt, kind, (rows, cols), 2)
    if KINDS[kind][0] is None and dt == "f32":  # as far as the products go, and a little further
        low, high = (sum(_range(t)[i] for t in (at, bt)) for i in (0, 1))
        exponent = np.clip(low - 30 + words.below(high - low + 36, rows, cols), -127, 127) + 127
        C = C & u4(0x807FFFFF) | exponent.astype(u4) << u4(23)
        C = np.where(words.below(4, rows, cols) == 0, u4(0), C)
    what = KINDS[kind][3]
    if what == "cancel":
        mask = 1 << words.below((form.k - 1).bit_length(), 1)[0]
        lower = np.flatnonzero(np.arange(width) & mask == 0)
        chosen = words.below(2, rows, len(lower)) == 1
        sign = u4(1 << (BITS[at] - 1))
        A[:, lower + mask] = np.where(chosen, A[:, lower] ^ sign, A[:, lower + mask])
        B[:, lower + mask] = B[:, lower]
    if what == "against":
        total = np.zeros((rows, cols))
        a, b = values(A, at), values(B, bt)
        for k in range(form.k):
            total -= a[:, k, None] * b[:, k]
        C = (
            total.astype(np.float32).view(u4)
            if dt == "f32"
            else (total.astype(np.float16).view(np.uint16).astype(u4))
        )
    return A, B, C


def _range(ptx_type: str) -> tuple[int, int]:
    """The least and largest exponent of normal numbers."""
    _, exponent_bits, _ = FORMATS[ptx_type]
    bias = (1 << exponent_bits - 1) - 1
    return 1 - bias, bias


def _stored(matrix: np.ndarray, ptx_type: str) -> np.ndarray:
    return matrix.astype(f"u{BITS[ptx_type] // 8}")


def swizzled(lines: np.ndarray) -> np.ndarray:
    """uint8 (lines, 128) as the 128B swizzle lays it."""
    pieces = lines.reshape(len(lines), 8, 16)
    row, piece = np.indices(pieces.shape[:2])
    stored = np.empty_like(pieces)
    stored[row, piece ^ row % 8] = pieces
    return stored.reshape(len(lines), 128)


LANE = np.arange(GROUP_THREADS)
OF_WARP, LINE, TURN = LANE // 32 * 16, LANE % 32 // 4, LANE % 4


def left_registers(A: np.ndarray, bits: int) -> np.ndarray:
    """uint32 (4, 128) of A (64, k)."""
    together = 32 // bits
    registers = np.zeros((4, GROUP_THREADS), u4)
    for i, part in product(range(4), range(together)):
        row = OF_WARP + LINE + 8 * (i % 2)
        col = i // 2 * 4 * together + TURN * together + part
        registers[i] |= A[row, col] << u4(bits * part)
    return registers


def sum_registers(C: np.ndarray, bits: int) -> np.ndarray:
    """uint32 (registers, 128) of C (64, n)."""
    row, col = sum_places(C.shape[1])
    each = C[row, col]
    return each if bits == 32 else each[0::2] | each[1::2] << u4(16)


def sum_places(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each element of D that a thread has, (n / 2, 128)."""
    i = np.arange(n // 2)[:, None]
    return OF_WARP + LINE + 8 * (i // 2 % 2), i // 4 * 8 + TURN * 2 + i % 2


@dataclass
class Given:
    """What a kernel of `wgmma_source` gets."""

    image: np.ndarray  # uint32 (cases, words)
    A: np.ndarray  # uint32 (cases, steps, 4, 128), or of length 1
    C: np.ndarray  # uint32 (cases, registers, 128)
    descriptors: np.ndarray  # uint64 (cases, 2)


def operands(form: Form, case: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Patterns, uint32: A (64, width), B (n, width) and the sums (64, n). One step takes k."""
    words, width = Words(f"{form.name} {case}"), LINE_BYTES * 8 // BITS[form.types[1]]
    A, B, C = factors(words, form, case % len(KINDS), ROWS, form.n, width)
    return A & u4(1 << BITS[form.types[1]] - 1) if form.alone else A, B, C


def given(form: Form, cases: int) -> Given:
    """Operands of a form: K-major, 128B swizzle, if not transposed."""
    (dt, at, bt), size = form.types, BITS[form.types[1]] // 8
    images, lefts, sums = [], [], []
    for case in range(cases):
        A, B, C = operands(form, case)
        pieces = []
        for matrix, kind, across in ((A, at, form.transposed[0]), (B, bt, form.transposed[1])):
            if across:  # lines of 64 along M or N, one for each k, 64 of them
                matrix = matrix[:, :64].reshape(-1, 64, 64) if len(matrix) % 64 == 0 else matrix
                matrix = matrix.swapaxes(1, 2).reshape(-1, 64)
            lines = np.ascontiguousarray(_stored(matrix, kind)).view(np.uint8)
            pieces.append(swizzled(lines.reshape(-1, LINE_BYTES)))
        images.append(np.concatenate(pieces).reshape(-1))
        steps = [A[:, form.k * s : form.k * (s + 1)] for s in range(form.steps)]
        lefts.append([left_registers(a, 8 * size) for a in steps])
        sums.append(sum_registers(C, BITS[dt]))
    # Transposed: stride to the next 8 of k; leading to the next 64 of m or n.
    pair = [descriptor(start, "128B", 8192, 1024) for start in (0, ROWS * LINE_BYTES)]
    return Given(
        np.stack(images).view(u4),
        np.array(lefts, u4) if form.registers else np.zeros(1, u4),
        np.stack(sums).astype(u4),
        np.array([pair] * cases, u8),
    )


def wgmma_result(form: Form, cases: int, launch) -> np.ndarray:
    """uint32 (cases, registers, 128)."""
    inputs = given(form, cases)
    return run(form, inputs, launch)


def run(form: Form, inputs: Given, launch) -> np.ndarray:
    cases, words = len(inputs.descriptors), inputs.image.shape[-1]
    apart = words if inputs.image.ndim == 2 else 0
    D = np.zeros((cases, form.sums, GROUP_THREADS), u4)
    args = [inputs.image, np.int32(words), np.int32(apart), inputs.A, inputs.C, D,
            inputs.descriptors, np.int32(form.scale_d)]  # fmt: skip
    launch(form, cases, args, 4 * words)
    return D


# --- which element of shared memory is where ------------------------------------------------------

WINDOW = 65536  # bytes in which the operand may lie; behind it the other one


@dataclass(frozen=True)
class Map:
    """One operand by descriptor, of elements of `ptx_type`; the other is the identity."""

    operand: str  # "a" or "b"
    ptx_type: str
    transposed: bool

    @property
    def name(self) -> str:
        return f"{self.operand} {self.ptx_type}" + " transposed" * self.transposed

    @property
    def form(self) -> Form:
        kind = self.ptx_type
        types = ("s32" if kind == "u8" else "f32", kind, kind)
        if self.operand == "b":
            return Form(types, 64, registers=True, transposed=(0, int(self.transposed)),
                        scale_d=False)  # fmt: skip
        n = max(16, 256 // BITS[kind])
        return Form(types, n, transposed=(int(self.transposed), 0), scale_d=False)


def maps() -> dict[str, Map]:
    of_types = [Map(x, t, False) for x, t in product("ab", ("bf16", "tf32", "u8"))]
    of_types += [Map(x, "bf16", True) for x in "ab"]
    return {case.name: case for case in of_types}


OFFSETS = {  # (leading, stride)
    "none": ((128, 256), (1024, 128), (2048, 4096), (16, 32), (0, 0), (144, 272)),
    "32B": ((0, 256), (512, 1024), (16, 4096), (128, 512), (2048, 128)),
    "64B": ((0, 512), (1024, 2048), (16, 4096), (128, 1024), (2048, 128)),
    "128B": ((0, 1024), (1024, 2048), (16, 4096), (4096, 1024), (2048, 128)),
}
STARTS = (0, 16, 32, 48, 64, 96, 112, 128, 256, 384, 512, 896, 1024, 1040)


def layouts() -> list[tuple[int, str, int, int, int]]:
    """Arguments of `descriptor`."""
    arguments = [
        (start, swizzle, *offsets, 0)
        for swizzle, pairs in OFFSETS.items()
        for offsets in pairs
        for start in STARTS
    ]
    arguments += [(start, swizzle, *OFFSETS[swizzle][0], base)
              for swizzle in OFFSETS for base in range(1, 8)
              for start in (0, 32, 128 * base, 128 * (8 - base))]  # fmt: skip
    return arguments


def map_result(case: Map, launch, rows=None) -> np.ndarray:
    """int32 (layouts, lines, k): the element of shared memory at each place of the operand.

    A: (64, k), B: (64, k), which is the transposed one.
    """
    form, rows = case.form, layouts() if rows is None else rows
    size, kind = BITS[case.ptx_type] // 8, case.ptx_type
    count, shift = WINDOW // size, 8 if size < 4 else 7
    numbers = 0
    for part in (0, 1):
        number = np.arange(count) >> shift * part & (1 << shift) - 1
        if kind == "u8":
            image = number.astype(np.uint8)
        else:
            image = number.astype(np.float32).view(u4)
            image = image if size == 4 else (image >> u4(16)).astype(np.uint16)
        unit = np.zeros((ROWS if case.operand == "b" else form.n, LINE_BYTES // size))
        places = np.arange(len(unit))
        unit[places, places % form.k] = places < max(form.k, 16 if case.operand == "b" else 0)
        if case.operand == "a":
            unit[form.k :] = 0
        unit = unit.astype(np.uint8) if kind == "u8" else unit.astype(np.float32).view(u4)
        other = unit if size != 2 else unit >> u4(16)
        other = _stored(other, kind)
        lines = np.ascontiguousarray(other).view(np.uint8).reshape(-1, LINE_BYTES)
        whole = np.concatenate([image.view(np.uint8), swizzled(lines).reshape(-1)]).view(u4)
        cases = len(rows)
        C = np.zeros((cases, form.sums, GROUP_THREADS), u4)
        descriptors, fixed = [descriptor(*row) for row in rows], descriptor(WINDOW, "128B", 0, 1024)
        pairs = [(d, fixed) if case.operand == "a" else (fixed, d) for d in descriptors]
        A = np.zeros(1, u4)
        if form.registers:
            left = left_registers(other[:, : form.k].astype(u4), 8 * size)
            A = np.stack([left[None]] * cases)
        D = run(form, Given(whole, A, C, np.array(pairs, u8)), launch)
        matrix = np.zeros((cases, ROWS, form.n), np.int64)
        row, col = sum_places(form.n)
        matrix[:, row, col] = D.astype(np.int64) if kind == "u8" else D.view(np.float32)
        matrix = (
            matrix[:, :, : form.k] if case.operand == "a" else (matrix[:, : form.k].swapaxes(1, 2))
        )
        numbers = numbers + (matrix << shift * part)
    return np.ascontiguousarray(numbers.astype(np.int32))


# --- FP8 in mma.sync ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Small:
    """mma.sync of one warp with FP8 factors."""

    types: tuple[str, str, str]
    k: int

    @property
    def opcode(self) -> str:
        d, a, b = self.types
        return f"mma.sync.aligned.m16n8k{self.k}.row.col.{d}.{a}.{b}.{d}"

    @property
    def entry(self) -> str:
        return "k_" + self.opcode.replace(".", "_")

    @property
    def registers(self) -> tuple[int, int, int]:
        return 4 if self.types[0] == "f32" else 2, self.k // 8, self.k // 16


def smalls() -> dict[str, Small]:
    forms = [Small((d, a, b), k) for k in (32, 16) for d, a, b in FLOATS if a in ("e4m3", "e5m2")]
    return {form.opcode: form for form in forms}


SMALL_WARPS, SMALL_KEPT = 208, 26


def small_source(form: Small) -> str:
    d, a, b = form.registers
    at = iter(range(2 * d + a + b))
    lists = ["{" + ", ".join(f"%{next(at)}" for _ in range(n)) + "}" for n in (d, a, b, d)]
    inputs = ", ".join(f'"r"({x}[{i}])' for x, n in zip("abc", (a, b, d), strict=True)
                       for i in range(n))  # fmt: skip
    loads = "".join(
        f"    unsigned {x}[{n}]; for (int i = 0; i < {n}; i++)"
        f" {x}[i] = {x.upper()}[(blockIdx.x * {n} + i) * 32 + threadIdx.x];\n"
        for x, n in zip("abc", (a, b, d), strict=True)
    )
    outputs = ", ".join(f'"=r"(d[{i}])' for i in range(d))
    return f"""
extern "C" __global__ void {form.entry}(const unsigned* A, const unsigned* B, const unsigned* C,
                                       unsigned* D)
{{
{loads}    unsigned d[{d}];
    asm volatile("{form.opcode} {", ".join(lists)};" : {outputs} : {inputs});
    for (int i = 0; i < {d}; i++) D[(blockIdx.x * {d} + i) * 32 + threadIdx.x] = d[i];
}}
"""


def small_operands(form: Small) -> list[np.ndarray]:
    """Registers of a, b and c: uint32 (warps, registers, 32) each."""
    arrays = [], [], []
    lane = np.arange(WARP)
    line, turn = lane // 4, lane % 4
    for warp in range(SMALL_WARPS):
        words = Words(f"{form.opcode} {warp}")
        A, B, C = factors(words, form, warp % len(KINDS), 16, 8, form.k)
        d, a, b = form.registers
        left, right = np.zeros((a, WARP), u4), np.zeros((b, WARP), u4)
        for i, part in product(range(a), range(4)):
            left[i] |= A[line + 8 * (i % 2), i // 2 * 16 + 4 * turn + part] << u4(8 * part)
        for i, part in product(range(b), range(4)):
            right[i] |= B[line, i * 16 + 4 * turn + part] << u4(8 * part)
        i = np.arange(4)[:, None]
        sums = C[line + 8 * (i // 2), 2 * turn + i % 2]
        sums = sums if d == 4 else sums[0::2] | sums[1::2] << u4(16)
        for kept, value in zip(arrays, (left, right, sums), strict=True):
            kept.append(value)
    return [np.stack(x).astype(u4) for x in arrays]


def small_result(form: Small, launch) -> np.ndarray:
    D = np.zeros((SMALL_WARPS, form.registers[0], WARP), u4)
    launch(form, SMALL_WARPS, [*small_operands(form), D], 0)
    return D


# --- conversions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conversion:
    """`opcode` of two numbers in one register, or in two: d, a, b."""

    opcode: str
    apart: bool

    @property
    def entry(self) -> str:
        return "k_" + self.opcode.replace(".", "_")


def conversions() -> dict[str, Conversion]:
    forms = []
    for kind, relu in product(("e4m3x2", "e5m2x2"), ("", ".relu")):
        forms += [Conversion(f"cvt.rn.satfinite{relu}.{kind}.f32", True),
                  Conversion(f"cvt.rn.satfinite{relu}.{kind}.f16x2", False),
                  Conversion(f"cvt.rn{relu}.f16x2.{kind}", False)]  # fmt: skip
    return {form.opcode: form for form in forms}


def conversion_source(form: Conversion) -> str:
    """Two numbers a thread; a result of 16 bits from 32, or the other way round."""
    if form.apart:
        text = f"{form.opcode} r, %2, %1;"
        body = f'asm volatile("{{ .reg .b16 r; {text} cvt.u32.u16 %0, r; }}" : "=r"(d)' + (
            ' : "f"(__uint_as_float(x[2 * i])), "f"(__uint_as_float(x[2 * i + 1])));'
        )
    elif form.opcode.endswith("f16x2"):
        body = f'asm volatile("{{ .reg .b16 r; {form.opcode} r, %1; cvt.u32.u16 %0, r; }}"' + (
            ' : "=r"(d) : "r"(x[2 * i] | x[2 * i + 1] << 16));'
        )
    else:
        body = f'asm volatile("{form.opcode} %0, %1;" : "=r"(d)' + (
            ' : "h"((unsigned short)(x[2 * i] | x[2 * i + 1] << 8)));'
        )
    return f"""
extern "C" __global__ void {form.entry}(const unsigned* x, unsigned* out, int pairs)
{{
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= pairs) return;
    unsigned d;
    {body}
    out[i] = d;
}}
"""


def conversion_operands(form: Conversion) -> np.ndarray:
    """uint32, an even count: all there are, of float32 those that are near something."""
    if form.apart:
        top = np.arange(1 << 16, dtype=u4) << u4(16)
        return np.stack([top + u4(low) for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).reshape(
            -1
        )
    return np.arange(1 << (16 if form.opcode.endswith("f16x2") else 8), dtype=u4)


def conversion_result(form: Conversion, launch) -> np.ndarray:
    """uint8 or uint16: one for each operand."""
    x = conversion_operands(form)
    out = np.zeros(len(x) // 2, u4)
    launch(form, len(out) // 128 + 1, [x, out, np.int32(len(out))], 0)
    if form.opcode.split(".")[-1] in ("f32", "f16x2"):
        return out.astype(np.uint16).view(np.uint8)
    return out.view(np.uint16)


# --- on the GPU -----------------------------------------------------------------------------------


def sources() -> dict[str, str]:
    """All kernels, in a few parts: part -> text."""
    parts: dict[str, dict[str, str]] = {}
    wanted = [form for form, _ in forms().values()] + [case.form for case in maps().values()]
    for form in wanted:
        part = parts.setdefault(form.types[1] + ("" if form.n <= 64 else " wide"), {})
        part[form.entry] = wgmma_source(form)
    small = {form.entry: small_source(form) for form in smalls().values()}
    parts["mma"] = small
    parts["mma"] |= {tensor.entry(n): tensor.product_source(x) for n, x in in_warps().items()}
    parts["cvt"] = {form.entry: conversion_source(form) for form in conversions().values()}
    return {name.replace(" ", "_"): "".join(part.values()) for name, part in parts.items()}


def compiled(text: str) -> bytes:
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(text, "k.cu", (), ())
    try:
        nvrtc.compileProgram(program, (f"-arch={ARCH}",))
    except nvrtc.NVRTCError as error:
        raise RuntimeError(nvrtc.getProgramLog(program)) from error
    return bytes(nvrtc.getCUBIN(program)) + b"\0"  # CuPy leaves out the last byte


def gpu(folder: Path):
    """`launch(one, blocks, args, shared_bytes)`. Cubins that are in `folder` are taken from it."""
    import cupy

    @cache
    def modules():
        by_entry = {}
        for name, text in sources().items():
            path = folder / f"{name}.cubin"
            if not path.exists():
                path.write_bytes(compiled(text))
            module = cupy.RawModule(path=str(path))
            by_entry |= dict.fromkeys(re.findall(r" (k_\w+)\(", text), module)
        return by_entry

    def launch(form, blocks: int, args: list, shared_bytes: int) -> None:
        there = [cupy.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
        entry = tensor.entry(form.opcode) if isinstance(form, tensor.Product) else form.entry
        kernel = modules()[entry].get_function(entry)
        if shared_bytes > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = shared_bytes
        threads = 128 if isinstance(form, Form | Conversion) else WARP
        kernel((blocks,), (threads,), tuple(there), shared_mem=shared_bytes)
        for here, result in zip(args, there, strict=True):
            if isinstance(here, np.ndarray):
                here[...] = result.get().reshape(here.shape)

    return launch


# --- counters -------------------------------------------------------------------------------------

METRICS = (
    "sm__inst_executed_pipe_tensor_op_hmma.sum",
    "sm__inst_executed_pipe_tensor_op_imma.sum",
    "sm__inst_executed_pipe_tensor_op_gmma.sum",
    "sm__sass_data_bytes_mem_shared_op_gmma.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "sm__ops_path_tensor_op_hgmma_src_fp16.sum",
    "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32.sum",
    "sm__ops_path_tensor_op_hgmma_src_tf32_dst_fp32.sum",
    "sm__ops_path_tensor_src_fp8.sum",
    "sm__ops_path_tensor_op_igmma_src_int8.sum",
)


def counted() -> dict[str, tuple[Form, int]]:
    """Name -> (form, blocks) of one launch each."""
    chosen = [
        *((Form(types, n), 1) for types in FLOATS[:4] for n in (8, 64, 256)),
        (Form(FLOATS[4], 64), 1), (Form(FLOATS[5], 64), 1), (Form(FLOATS[8], 64), 1),
        (Form(INTEGERS[0], 64), 1), (Form(INTEGERS[1], 64), 1),
        *((Form(FLOATS[i], 64, registers=True), 1) for i in (0, 2, 3, 4)),
        (Form(FLOATS[2], 64, transposed=(1, 0)), 1), (Form(FLOATS[2], 64, transposed=(0, 1)), 1),
        (Form(FLOATS[2], steps=4), 1), (Form(FLOATS[2], steps=4), 3),
        (Form(FLOATS[4], steps=4), 1), (Form(FLOATS[2], 128), 1), (Form(FLOATS[2], 24), 1),
    ]  # fmt: skip
    return {f"{form.name} {blocks}": (form, blocks) for form, blocks in chosen}


def in_warps() -> dict[str, tensor.Product]:
    """mma.sync of other types and wmma of integers, for their counters."""
    shapes = (
        "m16n8k8.row.col.f32.f16", "m16n8k16.row.col.f32.bf16", "m16n8k4.row.col.f32.tf32",
        "m16n8k8.row.col.f32.tf32", "m8n8k16.row.col.s32.s8.s8", "m16n8k16.row.col.s32.s8.s8",
        "m16n8k32.row.col.s32.s8.s8", "row.col.m16n16k16.s32.s8", "row.col.m32n8k16.s32.u8",
        "row.col.m8n32k16.s32.s8",
    )  # fmt: skip
    every = tensor.products().items()
    return {n: form for n, form in every if any(f".{x}" in n for x in shapes) and "sat" not in n}


def in_warp_result(form: tensor.Product, launch) -> np.ndarray:
    """As tensor.product_result, with a `launch` of this module."""
    return tensor.product_result(form, lambda _text, _entry, *how: launch(form, *how))


def wholes() -> dict[str, tensor.Whole]:
    """Kernels of tests/kernels/wgmma.cu."""
    odd = (61, 67, 171)
    kernels = [
        tensor.Whole("wgmma.cu", "wgmma_shared", (), "f16", 64, 128, odd),
        tensor.Whole("wgmma.cu", "wgmma_shared", ("-DSTAGES=1",), "f16", 64, 128, odd),
        tensor.Whole("wgmma.cu", "wgmma_registers", (), "f16", 64, 128, odd),
    ]
    return {" ".join((whole.entry, *whole.macros)): whole for whole in kernels}


def watched() -> list[str]:
    """The names of the launches of `watch`; a map takes two, each of all layouts."""
    of_maps = [f"map {name} {part}" for name in maps() for part in (0, 1)]
    return [*counted(), *smalls(), *in_warps(), *of_maps, *wholes()]


def watch(launch) -> None:
    for form, blocks in counted().values():
        wgmma_result(form, blocks, launch)
    for form in smalls().values():
        small_result(form, launch)
    for form in in_warps().values():
        in_warp_result(form, launch)
    for form in maps().values():
        map_result(form, launch)
    for form in wholes().values():
        tensor.whole_on_gpu(form)


def counters(folder: Path) -> dict[str, dict[str, int]]:
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv",
               "--kernel-name", "regex:^(k|wgmma)_", "--metrics", ",".join(METRICS), sys.executable,
               __file__, "--watch", str(folder)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    by_launch: dict[int, dict[str, int]] = {}
    for row in csv.DictReader(lines):
        value = int(float(row["Metric Value"].replace(",", "")))
        by_launch.setdefault(int(row["ID"]), {})[row["Metric Name"]] = value
    names = watched()
    assert len(by_launch) == len(names), (len(by_launch), len(names), done.stdout[-2000:])
    return {name: by_launch[i] for name, i in zip(names, sorted(by_launch), strict=True)}


def digests(results) -> np.ndarray:
    """uint64, of each along the first axis."""
    hashes = [hashlib.sha256(np.ascontiguousarray(x).tobytes()).digest()[:8] for x in results]
    return np.frombuffer(b"".join(hashes), np.uint64)


def main(outdir: Path, folder: Path) -> None:
    launch, results = gpu(folder), {}

    def keep() -> None:
        outdir.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(outdir / "wgmma.npz", **results)  # kept even if the rest fails

    about = {**tensor.provenance(), "command": "python ptxsim/hardware/record_wgmma.py OUTDIR"}
    results["about"] = np.array(json.dumps(about))
    for name, (form, cases) in forms().items():
        result = wgmma_result(form, cases, launch)
        results[f"wgmma# {name}"] = digests(result)
        if form == Form(form.types) and not form.integral:
            results[f"wgmma {name}"] = result[:KEPT]
    print("products", flush=True)
    for name, form in smalls().items():
        result = small_result(form, launch)
        results[f"mma {name}"] = result[:SMALL_KEPT]
        results[f"mma# {name}"] = digests(result)
    for name, form in conversions().items():
        results[f"cvt {name}"] = conversion_result(form, launch)
    for name, form in wholes().items():
        results[f"kernel {name}"] = tensor.whole_on_gpu(form)
    keep()
    print("conversions", flush=True)
    for name, form in maps().items():
        results[f"map# {name}"] = digests(map_result(form, launch))
        print("map", name, flush=True)
    keep()
    results["counters"] = np.array(json.dumps(counters(folder)))
    keep()


if __name__ == "__main__":
    if sys.argv[1] == "--watch":
        watch(gpu(Path(sys.argv[2])))
    elif sys.argv[1] == "--compile":
        for name, text in sources().items():
            (Path(sys.argv[2]) / f"{name}.cubin").write_bytes(compiled(text))
            print(name, flush=True)
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else sys.argv[1]))
