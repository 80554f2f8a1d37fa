"""mma.sync and wmma.mma: products of small matrices by one warp.

Integers are exact. Floats are added as adding.py says, up to 16 products at once. On an H200,
factors of 8 bits become f16 first, for two products, as the GPU's assembler has it: of the elements
k with k % 4 < 2 from 0 on, then of the others onto that. The old sum is added last, and rounded.

Matrices are (rows, columns, warps) here: NumPy then works along the warps.

An element of a result of float64 is a chain of fused multiply-adds, each rounded to nearest, from
the old sum up along k, as on an NVIDIA H200 but for which NaN it is (hardware/record_doubles.py).
PTX says nothing of wmma's elements of float64: they are taken to be those of mma.sync.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ptxsim.architectures import WARP, base
from ptxsim.arithmetic.double import double_fma
from ptxsim.tensor_cores import adding
from ptxsim.tensor_cores.adding import BITS, Factors, decoded, numbers, pattern, summed
from ptxsim.tensor_cores.fragments import Fragment

f2, f4, f8 = np.float16, np.float32, np.float64
i4, i8, u4 = np.int32, np.int64, np.uint32


@dataclass(frozen=True)
class Product:
    """d = a @ b + c for the warps that execute it."""

    types: tuple[str, str, str, str]  # of d, a, b, c
    fragments: tuple[Fragment, Fragment, Fragment, Fragment]
    group: int  # how many products are added at once
    inner: str  # the type in which float sums are kept
    saturate: bool = False  # whether integer sums stop at the ends of their range

    @cached_property
    def registers(self) -> tuple[int, ...]:
        return tuple(fragment.registers for fragment in self.fragments)

    def run(self, lanes, index: int, a, b, c, mask):
        check_whole_warps(lanes, index, mask)
        multiply_adds, hmma, imma = self._work
        lanes.count_product(multiply_adds, hmma, mask, imma)
        bits, registers = (u4, i4) if self.types[0] != "f64" else (f8, f8)
        matrices = [
            fragment.matrix(to_columns(lanes, values, bits))
            for fragment, values in zip(self.fragments[1:], (a, b, c), strict=True)
        ]
        exact = {"s32": self._integers, "f64": self._doubles}
        compute = exact.get(self.types[0]) or self._floats(lanes.launch.arch)
        columns = self.fragments[0].fill(compute(*matrices))
        return [lanes.layout.from_warps(column.T).view(registers) for column in columns]

    @cached_property
    def _work(self) -> tuple[int, int, int]:
        """Multiply-adds of a warp, and how many HMMA and IMMA do them: 16×8 sums each."""
        (m, n), k = self.fragments[0].shape, self.fragments[1].shape[1]
        if self.types[0] == "s32":
            return m * n * k, 0, max(1, m * n // 128)
        if self.types[0] == "f64":
            return m * n * k, 0, 0
        steps = 2 if BITS[self.types[1]] == 8 else -(-k // self.group)
        return m * n * k, m * n // 128 * steps, 0

    def _integers(self, a, b, c):
        _, a_type, b_type, _ = self.types
        a, b = (adding.integers(x, of).astype(i4) for x, of in ((a, a_type), (b, b_type)))
        total = c.view(i4).astype(i8)
        for k in range(len(b)):
            total += a[:, k, None] * b[k]
        return adding.integer_pattern(total, self.saturate)

    @staticmethod
    def _doubles(a, b, c):
        for k in range(len(b)):
            c = double_fma(a[:, k, None], b[k], c)
        return c

    def _floats(self, arch: str):
        """The function of a, b and c that computes as tensor cores of this architecture do."""
        bits, of_arch = BITS[self.types[1]], adding.GENERATIONS.get(base(arch))
        if bits == 8:
            if of_arch is None or of_arch.kept_of_eight is None:
                return self._of_eight_bits
            return partial(self._in_groups, group=of_arch.row_bytes, kept=of_arch.kept_of_eight)
        if of_arch is None:
            return partial(self._in_groups, group=self.group, kept=adding.KEPT_BITS)
        group = min(self.group, 8 * of_arch.row_bytes // bits)
        return partial(self._in_groups, group=group, kept=of_arch.kept)

    def _in_groups(self, a, b, c, *, group: int, kept: int):
        d_type, a_type, b_type, c_type = self.types
        c = numbers(c, c_type)
        a, a_exponents = decoded(a, a_type)
        b, b_exponents = decoded(b, b_type)
        for k in range(0, len(b), group):
            part = slice(k, k + group)
            factors = Factors(a[:, part], a_exponents[:, part], b[part], b_exponents[part])
            c = summed(factors, c, a_type, self.inner, kept)
        return pattern(c if d_type == self.inner else adding.narrowed(c, d_type, kept), d_type)

    def _of_eight_bits(self, a, b, c):
        d_type, a_type, b_type, c_type = self.types
        a, b, c = numbers(a, a_type), numbers(b, b_type), numbers(c, c_type)
        k, total = np.arange(len(b)) % 4, np.zeros_like(c)
        for part in (k < 2, k >= 2):
            a_part, b_part = a[:, part], b[part]
            factors = Factors(
                a_part.astype(f4), adding.exponents(a_part, "f16"),
                b_part.astype(f4), adding.exponents(b_part, "f16"),
            )  # fmt: skip
            total = summed(factors, total, "f16", d_type)
        return pattern((total + c).astype(f2 if d_type == "f16" else f4).astype(f8), d_type)


# --- lanes and warps ------------------------------------------------------------------------------


def to_columns(lanes, registers, dtype=u4) -> np.ndarray:
    """(registers, 32, warps) of `dtype` from one array of all lanes for each register."""
    rows = [lanes.layout.to_warps(value) for value in registers]
    return np.stack([row.view(dtype).T for row in rows])


def check_whole_warps(lanes, index: int, mask) -> None:
    """Find warps of which only a part executes an instruction that is `.aligned`."""
    if mask is True and lanes.layout.threads % WARP == 0:
        return
    rows = lanes.layout.active(mask)
    part = rows & ~rows.all(axis=1, keepdims=True)
    if part.any():
        what = "only a part of the warp executes it, and all 32 lanes must"
        lanes.find("divergent warp", index, what, lanes.layout.from_warps(part))
