"""Record what an NVIDIA GPU's tensor cores compute, how fragments lie, and what loads cost.

    python ptxsim/hardware/record_tensor.py OUTDIR

writes OUTDIR/tensor.npz. Needs CuPy, ncu (for the counters) and a GPU of compute capability 9.0 or
later. Each form of an instruction becomes a small kernel, whose inline assembly is that instruction
alone. The simulator runs the same kernels on the same operands: see test_tensor_cores.py.

The file holds, by the name of the form: `mma NAME`, the result registers (warps, registers, 32) of
products; `fragment NAME`, the element of the matrix that each part of a register holds, (registers,
parts, 32); `store NAME`, the part of a register that comes to lie in each element; `rows NAME`,
results of ldmatrix, stmatrix and movmatrix; `kernel NAME`, C of a whole kernel of tests/kernels/;
and `counters`, Nsight Compute's metrics of one launch each, as JSON.
Operands are not stored: `operands` makes the same ones anywhere.
"""

from __future__ import annotations

import csv
import hashlib
import json
import subprocess
import sys
import zlib
from dataclasses import dataclass
from datetime import date
from itertools import product
from pathlib import Path

import numpy as np

ARCH = "sm_90a"
WARP = 32
FLOAT_WARPS, INTEGER_WARPS = 28, 4
# type -> (bits, exponent bits, stored significand bits), as it lies in memory
FORMATS = {"f16": (16, 5, 10), "bf16": (16, 8, 7), "tf32": (32, 8, 10), "f32": (32, 8, 23)}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "s8": 8, "u8": 8}


@dataclass(frozen=True)
class Product:
    """mma.sync or wmma.mma. `types`: of d, a, b, c; `registers`: of d, a, b, c."""

    opcode: str
    types: tuple[str, str, str, str]
    registers: tuple[int, int, int, int]

    @property
    def integral(self) -> bool:
        return self.types[0] == "s32"

    @property
    def warps(self) -> int:
        return INTEGER_WARPS if self.integral else FLOAT_WARPS


@dataclass(frozen=True)
class Transfer:
    """wmma.load or wmma.store. `rows`, `cols`: of the matrix."""

    opcode: str
    ptx_type: str
    rows: int
    cols: int
    layout: str
    space: str
    registers: int

    @property
    def stores(self) -> bool:
        return self.opcode.startswith("wmma.store")

    @property
    def contiguous(self) -> int:
        """Elements of a row, or of a column where the layout is by columns."""
        return self.cols if self.layout == "row" else self.rows

    @property
    def lines(self) -> int:
        return self.rows * self.cols // self.contiguous


WMMA_SHAPES = {"m16n16k16": (16, 16, 16), "m32n8k16": (32, 8, 16), "m8n32k16": (8, 32, 16)}
TF32_SHAPE = {"m16n16k8": (16, 16, 8)}


def wmma_registers(matrix: str, ptx_type: str, rows: int, cols: int) -> int:
    if matrix in "ab" and ptx_type == "f16":
        return 8  # whatever the shape: PTX says so, and the second half may repeat the first
    return rows * cols * BITS[ptx_type] // (32 * WARP)


def extent(matrix: str, shape: tuple[int, int, int]) -> tuple[int, int]:
    m, n, k = shape
    return {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[matrix]


def products() -> dict[str, Product]:
    forms = []
    for shape, a, b in (("m16n8k8", 2, 1), ("m16n8k16", 4, 2)):
        forms += [
            Product(f"mma.sync.aligned.{shape}.row.col.{d}.f16.f16.{d}",
                    (d, "f16", "f16", d), (n, a, b, n))
            for d, n in (("f32", 4), ("f16", 2))
        ]  # fmt: skip
        forms.append(Product(f"mma.sync.aligned.{shape}.row.col.f32.bf16.bf16.f32",
                             ("f32", "bf16", "bf16", "f32"), (4, a, b, 4)))  # fmt: skip
    for shape, a, b in (("m16n8k4", 2, 1), ("m16n8k8", 4, 2)):
        forms.append(Product(f"mma.sync.aligned.{shape}.row.col.f32.tf32.tf32.f32",
                             ("f32", "tf32", "tf32", "f32"), (4, a, b, 4)))  # fmt: skip
    for (shape, *counts), a, b, sat in product(
        (("m8n8k16", 2, 1, 1), ("m16n8k16", 4, 2, 1), ("m16n8k32", 4, 4, 2)),
        ("s8", "u8"), ("s8", "u8"), ("", ".satfinite"),
    ):  # fmt: skip
        forms.append(Product(f"mma.sync.aligned.{shape}.row.col{sat}.s32.{a}.{b}.s32",
                             ("s32", a, b, "s32"), (*counts, counts[0])))  # fmt: skip
    for (name, shape), kind in product(
        (WMMA_SHAPES | TF32_SHAPE).items(), ("f16", "bf16", "tf32", "s8", "u8")
    ):
        if (name in TF32_SHAPE) != (kind == "tf32"):
            continue
        counts = [wmma_registers(x, kind, *extent(x, shape)) for x in "ab"]
        for d, c in product(("f32", "f16"), repeat=2) if kind == "f16" else ():
            outer = [wmma_registers(x, t, *extent(x, shape)) for x, t in (("d", d), ("c", c))]
            forms.append(Product(f"wmma.mma.sync.aligned.row.col.{name}.{d}.{c}",
                                 (d, kind, kind, c), (outer[0], *counts, outer[1])))  # fmt: skip
        if kind in ("bf16", "tf32"):
            forms.append(Product(f"wmma.mma.sync.aligned.row.col.{name}.f32.{kind}.{kind}.f32",
                                 ("f32", kind, kind, "f32"), (8, *counts, 8)))  # fmt: skip
        for sat in ("", ".satfinite") if kind in ("s8", "u8") else ():
            forms.append(Product(f"wmma.mma.sync.aligned.row.col.{name}.s32.{kind}.{kind}.s32{sat}",
                                 ("s32", kind, kind, "s32"), (8, *counts, 8)))  # fmt: skip
    return {form.opcode: form for form in forms}


def transfers() -> dict[str, Transfer]:
    forms = []
    for (name, shape), matrix, layout, space in product(
        (WMMA_SHAPES | TF32_SHAPE).items(), "abcd", ("row", "col"), ("global", "shared")
    ):
        kinds = ("f32", "f16", "s32") if matrix in "cd" else ("f16", "bf16", "s8", "u8")
        if name in TF32_SHAPE:
            kinds = ("f32",) if matrix in "cd" else ("tf32",)
        for kind in kinds:
            verb = "store" if matrix == "d" else "load"
            opcode = f"wmma.{verb}.{matrix}.sync.aligned.{layout}.{name}.{space}.{kind}"
            rows, cols = extent(matrix, shape)
            forms.append(Transfer(opcode, kind, rows, cols, layout, space,
                                  wmma_registers(matrix, kind, rows, cols)))  # fmt: skip
    return {form.opcode: form for form in forms}


# --- kernels --------------------------------------------------------------------------------------


def entry(opcode: str) -> str:
    return "k_" + opcode.replace(".", "_").replace("::", "_")


def _places(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{i}" for i in range(first, first + count)) + "}"


def product_source(form: Product) -> str:
    """One warp a block; registers lie in memory as (warps, registers, 32)."""
    d, a, b, c = form.registers
    text = f"{form.opcode} {_places(0, d)}, {_places(d, a)}, {_places(d + a, b)}, "
    text += _places(d + a + b, c) + ";"
    outputs = ", ".join(f'"=r"(d[{i}])' for i in range(d))
    inputs = ", ".join(f'"r"({n}[{i}])' for n, count in zip("abc", (a, b, c), strict=True)
                       for i in range(count))  # fmt: skip
    loads = "".join(
        f"    unsigned {n}[{count}];\n"
        f"    for (int i = 0; i < {count}; i++)"
        f" {n}[i] = {n.upper()}[(blockIdx.x * {count} + i) * 32 + threadIdx.x];\n"
        for n, count in zip("abc", (a, b, c), strict=True)
    )
    return f"""
extern "C" __global__ void {entry(form.opcode)}(const unsigned* A, const unsigned* B,
                                               const unsigned* C, unsigned* D)
{{
{loads}    unsigned d[{d}];
    asm volatile("{text}" : {outputs} : {inputs});
    for (int i = 0; i < {d}; i++) D[(blockIdx.x * {d} + i) * 32 + threadIdx.x] = d[i];
}}
"""


def transfer_source(form: Transfer) -> str:
    """`memory` holds the matrix, `registers` (registers, 32). In shared memory: a copy of it."""
    count, shared = form.registers, form.space == "shared"
    size = BITS[form.ptx_type] // 8
    operand = "[%{0}], {1}, %{2};" if form.stores else "{1}, [%{0}], %{2};"
    places = _places(0, count)
    text = f"{form.opcode} {operand.format(count, places, count + 1)}"
    sign = '"r"(r[{0}])' if form.stores else '"=r"(r[{0}])'
    registers = ", ".join(sign.format(i) for i in range(count))
    pointer = '"r"((unsigned)__cvta_generic_to_shared(s))' if shared else '"l"(memory)'
    inputs = f'{pointer}, "r"(ld)'
    lists = f": : {registers}, {inputs}" if form.stores else f": {registers} : {inputs}"
    words = "bytes / 4"
    before = after = ""
    if shared:
        before = f"""    extern __shared__ __align__(128) unsigned s[];
    for (int i = threadIdx.x; i < {words}; i += 32) s[i] = ((unsigned*)memory)[i];
    __syncwarp();
"""
        if form.stores:
            after = f"""    __syncwarp();
    for (int i = threadIdx.x; i < {words}; i += 32) ((unsigned*)memory)[i] = s[i];
"""
    fill = f"    for (int i = 0; i < {count}; i++) r[i] = registers[i * 32 + threadIdx.x];\n"
    keep = f"    for (int i = 0; i < {count}; i++) registers[i * 32 + threadIdx.x] = r[i];\n"
    name = entry(form.opcode)
    return f"""
extern "C" __global__ void {name}(void* memory, unsigned* registers, int ld, int bytes)
{{   // {size}-byte elements
{before}    unsigned r[{count}];
{fill if form.stores else ""}    asm volatile("{text}" {lists} : "memory");
{"" if form.stores else keep}{after}}}
"""


MATRIX_FORMS = [
    f"{name}.sync.aligned.m8n8.x{count}{trans}.shared.b16"
    for name, count, trans in product(("ldmatrix", "stmatrix"), (1, 2, 4), ("", ".trans"))
]
MOVE_FORM = "movmatrix.sync.aligned.m8n8.trans.b16"


def matrix_count(opcode: str) -> int:
    return int(opcode.split(".x")[1][0]) if ".x" in opcode else 1


def matrix_source(opcode: str) -> str:
    """ldmatrix and stmatrix with an address for each lane: `places`, in bytes of 4 KiB."""
    count = matrix_count(opcode)
    if opcode.startswith("ldmatrix"):
        text, lists = f"{opcode} {_places(0, count)}, [%{count}];", ": {0} : {1}"
        registers = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    else:
        text, lists = f"{opcode} [%{count}], {_places(0, count)};", ": : {0}, {1}"
        registers = ", ".join(f'"r"(r[{i}])' for i in range(count))
    lists = lists.format(registers, '"r"(at)')
    return f"""
extern "C" __global__ void {entry(opcode)}(unsigned* memory, unsigned* registers, const int* places)
{{
    __shared__ __align__(128) unsigned s[1024];
    for (int i = threadIdx.x; i < 1024; i += 32) s[i] = memory[i];
    unsigned r[{count}], at = (unsigned)__cvta_generic_to_shared(s) + places[threadIdx.x];
    for (int i = 0; i < {count}; i++) r[i] = registers[i * 32 + threadIdx.x];
    __syncwarp();
    asm volatile("{text}" {lists} : "memory");
    __syncwarp();
    for (int i = 0; i < {count}; i++) registers[i * 32 + threadIdx.x] = r[i];
    for (int i = threadIdx.x; i < 1024; i += 32) memory[i] = s[i];
}}
"""


MOVE_SOURCE = f"""
extern "C" __global__ void {entry(MOVE_FORM)}(unsigned* registers)
{{
    unsigned r;
    asm volatile("{MOVE_FORM} %0, %1;" : "=r"(r) : "r"(registers[threadIdx.x]));
    registers[threadIdx.x] = r;
}}
"""


# --- operands -------------------------------------------------------------------------------------


class Words:
    """A stream of random words that is the same everywhere, whatever the version of NumPy."""

    def __init__(self, name: str):
        self._bits = np.random.PCG64(zlib.crc32(name.encode()))

    def __call__(self, *shape: int) -> np.ndarray:
        count = int(np.prod(shape))
        return (self._bits.random_raw(count) >> np.uint64(32)).astype(np.uint32).reshape(shape)

    def below(self, limit: int, *shape: int) -> np.ndarray:
        return (self(*shape).astype(np.uint64) * np.uint64(limit) >> np.uint64(32)).astype(np.int64)


# What the numbers of a warp are like, in turn: how wide their exponents spread about 1 (None: all
# patterns of bits; 0: subnormal and hardly more), how many of 16 are zero, and in 64 are special.
KINDS = (
    (2, 0, 0), (12, 0, 0), (30, 4, 0), (120, 12, 0), (None, 0, 0), (0, 2, 0), (6, 0, 1),
)  # fmt: skip


def numbers(words: Words, ptx_type: str, kind: int, *shape: int) -> np.ndarray:
    """Patterns of bits of floats, uint32."""
    bits, exponent_bits, stored = FORMATS[ptx_type]
    spread, zeros, specials = KINDS[kind]
    low = 23 if ptx_type == "tf32" else stored  # tf32 is kept as a float32
    if spread is None:
        return words(*shape) >> np.uint32(32 - bits)
    top = (1 << exponent_bits) - 1
    bias = top >> 1
    if spread == 0:
        exponent = words.below(4, *shape)
        exponent += words.below(2, *shape) * words.below(2, *shape) * (bias - 2)
    else:
        exponent = bias - spread // 2 + words.below(spread + 1, *shape)
    exponent = np.clip(exponent, 0, top - 1).astype(np.uint32)
    fraction = words(*shape) >> np.uint32(32 - low)
    sign = words.below(2, *shape).astype(np.uint32) << np.uint32(exponent_bits + low)
    pattern = sign | exponent << np.uint32(low) | fraction
    pattern = np.where(words.below(16, *shape) < zeros, sign, pattern)
    special = words.below(64, *shape) < specials
    infinite = np.uint32(top << low)
    nan = infinite | np.uint32(1 << (low - 1))
    chosen = np.where(words.below(4, *shape) == 0, nan, infinite)
    return np.where(special, sign | chosen, pattern).astype(np.uint32)


def operands(form: Product) -> list[np.ndarray]:
    """Registers of a, b and c: uint32 (warps, registers, 32) each."""
    words, arrays = Words(form.opcode), []
    for matrix, ptx_type, count in zip("abc", form.types[1:], form.registers[1:], strict=True):
        repeats = form.opcode.startswith("wmma") and matrix in "ab" and ptx_type == "f16"
        count = count // 2 if repeats else count
        if form.integral:
            value = words(form.warps, count, WARP)
            if ptx_type == "s32":  # near the ends in every other warp
                ends = np.where(value & 1, np.uint32(0x7FFF0000), np.uint32(0x80000000))
                value[1::2] = (ends | value & 0xFFFF)[1::2]
            elif form.warps > 2:
                value[2] = np.where(value[2] & 1, np.uint32(0x7F7F7F7F), np.uint32(0xFFFFFFFF))
        else:
            parts = 32 // BITS[ptx_type]
            warps = []
            for warp in range(form.warps):
                # c like the products, or of any size
                kind = warp % len(KINDS)
                each = numbers(words, ptx_type, kind, count, parts, WARP)
                shifts = (np.arange(parts, dtype=np.uint32) * np.uint32(16))[None, :, None]
                warps.append(np.bitwise_or.reduce(each << shifts, axis=1))
            value = np.stack(warps)
        arrays.append(np.concatenate([value, value], axis=1) if repeats else value)
    return [np.ascontiguousarray(x, np.uint32) for x in arrays]


def digest() -> str:
    """Of all operands: whoever makes others compares wrongly."""
    sha = hashlib.sha256()
    for form in products().values():
        for value in operands(form):
            sha.update(value.tobytes())
    return sha.hexdigest()


def element_numbers(form: Transfer, part: int) -> np.ndarray:
    """The matrix in memory, as its transfer wants it: bytes of `part` 0 or 1 of r * cols + c."""
    number = np.arange(form.rows * form.cols, dtype=np.uint32).reshape(form.rows, form.cols)
    number = number if form.layout == "row" else number.T
    size = BITS[form.ptx_type] // 8
    if size == 1:
        number = number >> np.uint32(8 * part) & np.uint32(0xFF)
    return np.ascontiguousarray(number.astype(f"u{size}"))


def rows_of(opcode: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Memory (1024 words), registers (count, 32) and places (32,) for ldmatrix and stmatrix."""
    words = Words(opcode)
    order = np.argsort(words(256))[:WARP].astype(np.int32) * 16  # no two rows overlap
    return words(1024), words(matrix_count(opcode), WARP), order


# --- results: the same on a GPU and in the simulator ----------------------------------------------


def source() -> str:
    return "".join(
        [*(product_source(form) for form in products().values()),
         *(transfer_source(form) for form in transfers().values()),
         *(matrix_source(opcode) for opcode in MATRIX_FORMS), MOVE_SOURCE]
    )  # fmt: skip


def product_result(form: Product, launch) -> np.ndarray:
    """`launch(text, entry, blocks, args, shared_bytes)` runs blocks of one warp, changes args."""
    out = np.zeros((form.warps, form.registers[0], WARP), np.uint32)
    launch(product_source(form), entry(form.opcode), form.warps, [*operands(form), out], 0)
    return out


def transfer_result(form: Transfer, launch) -> np.ndarray:
    """int16: which element each part of a register holds, or which part each element."""
    size = BITS[form.ptx_type] // 8
    parts, numbers = 4 // size, 0
    for byte in range(2 if size == 1 else 1):
        if form.stores:
            memory = np.zeros((form.lines, form.contiguous), f"u{size}")
            number = np.arange(form.registers * WARP * parts, dtype=np.uint32)
            number = number.reshape(form.registers, parts, WARP)
            shifts = (np.arange(parts, dtype=np.uint32) * np.uint32(8 * size))[None, :, None]
            registers = np.bitwise_or.reduce(number << shifts, axis=1)
        else:
            memory = element_numbers(form, byte)
            registers = np.zeros((form.registers, WARP), np.uint32)
        args = [memory, registers, np.int32(form.contiguous), np.int32(memory.nbytes)]
        launch(transfer_source(form), entry(form.opcode), 1, args, memory.nbytes)
        if form.stores:
            numbers = memory if form.layout == "row" else memory.T
            continue
        shifts = (np.arange(parts, dtype=np.uint32) * np.uint32(8 * size))[None, :, None]
        mask = np.uint32(2 ** (8 * size) - 1)
        numbers = numbers + ((registers[:, None] >> shifts & mask) << np.uint32(8 * byte))
    return np.ascontiguousarray(numbers).astype(np.int16)


def matrix_result(opcode: str, launch) -> np.ndarray:
    """uint32: what ldmatrix and movmatrix give in registers, what stmatrix leaves in memory."""
    if opcode == MOVE_FORM:
        registers = Words(opcode)(WARP)
        launch(MOVE_SOURCE, entry(opcode), 1, [registers], 0)
        return registers
    memory, registers, places = rows_of(opcode)
    launch(matrix_source(opcode), entry(opcode), 1, [memory, registers, places], 0)
    return registers if opcode.startswith("ldmatrix") else memory


# --- counters -------------------------------------------------------------------------------------

METRICS = (
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "smsp__inst_executed_op_ldsm.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
)
# Bytes from one line of the matrix to the next, so that lines fall into few banks and split sectors
PITCH = {"global": 48, "shared": 80}
LONG_PITCH = 256


def counted() -> dict[str, tuple]:
    """Name -> (text, entry, args, shared bytes) of one launch each, of one warp."""
    launches = {}
    for form, long in product(transfers().values(), (False, True)):
        if form.ptx_type in ("bf16", "u8"):
            continue  # as f16 and s8
        size = BITS[form.ptx_type] // 8
        pitch = LONG_PITCH if long else max(PITCH[form.space], form.contiguous * size + 16)
        memory = np.zeros((form.lines * pitch // 4,), np.uint32)
        registers = np.zeros((form.registers, WARP), np.uint32)
        args = [memory, registers, np.int32(pitch // size), np.int32(memory.nbytes)]
        name = f"{form.opcode} {'long' if long else 'short'}"
        launches[name] = transfer_source(form), entry(form.opcode), args, memory.nbytes
    for opcode, step in product(MATRIX_FORMS, (16, 32, 80, 128)):
        memory, registers, _ = rows_of(opcode)
        places = np.arange(WARP, dtype=np.int32) * step % 4096
        args = [memory, registers, places]
        launches[f"{opcode} {step}"] = matrix_source(opcode), entry(opcode), args, 0
    return launches


KERNELS = Path(__file__).parents[1] / "tests" / "kernels"


@dataclass(frozen=True)
class Whole:
    """A kernel of tests/kernels/ on one product of m×n×k, alpha 1.5 and beta 0.5."""

    file: str
    entry: str
    macros: tuple[str, ...]
    kind: str
    tile: int
    threads: int
    shape: tuple[int, int, int]

    @property
    def grid(self) -> tuple[int, int, int]:
        m, n, _ = self.shape
        return -(-n // self.tile), -(-m // self.tile), 1

    def arguments(self) -> list:
        """A, B as uint16 patterns, C float32, and the numbers."""
        (m, n, k), words = self.shape, Words(self.kind)
        A = numbers(words, self.kind, 0, m, k).astype(np.uint16)
        B = numbers(words, self.kind, 0, k, n).astype(np.uint16)
        C = numbers(words, "f32", 0, m, n).view(np.float32)
        return [A, B, C, *map(np.int32, self.shape), np.float32(1.5), np.float32(0.5)]


def wholes() -> dict[str, Whole]:
    odd = (61, 67, 71)
    kernels = [
        Whole("wmma.cu", "wmma_plain", (), "f16", 16, 32, (64, 48, 80)),
        Whole("wmma.cu", "wmma_staged", (), "f16", 32, 128, odd),
        Whole("mma_sync.cu", "mma_sync", ("-DSWIZZLE=0",), "f16", 64, 128, odd),
        Whole("mma_sync.cu", "mma_sync", ("-DSWIZZLE=1",), "f16", 64, 128, (128, 72, 136)),
        Whole("mma_sync.cu", "mma_sync", ("-DBF16=1",), "bf16", 64, 128, odd),
    ]
    return {" ".join((whole.entry, *whole.macros)): whole for whole in kernels}


def whole_on_gpu(whole: Whole) -> np.ndarray:
    """C, float32 (m, n)."""
    import cupy

    text = (KERNELS / whole.file).read_text(encoding="utf-8")
    toolkits = [Path(path) for path in (cupy.cuda.get_cuda_path(), "/usr/local/cuda") if path]
    headers = [path / "include" for path in toolkits if (path / "include/crt/mma.h").exists()]
    options = (f"-arch={ARCH}", *(f"-I{path}" for path in headers[:1]), *whole.macros)
    kernel = cupy.RawModule(code=text, options=options, backend="nvrtc").get_function(whole.entry)
    args = [cupy.asarray(x) if isinstance(x, np.ndarray) else x for x in whole.arguments()]
    kernel(whole.grid, (whole.threads,), tuple(args))
    return args[2].get()


def gpu():
    """The `launch` of this module's results, on the GPU."""
    import cupy

    module = cupy.RawModule(code=source(), options=(f"-arch={ARCH}",), backend="nvrtc")

    def launch(text: str, kernel: str, blocks: int, args: list, shared_bytes: int) -> None:
        there = [cupy.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
        module.get_function(kernel)((blocks,), (WARP,), tuple(there), shared_mem=shared_bytes)
        for here, result in zip(args, there, strict=True):
            if isinstance(here, np.ndarray):
                here[...] = result.get()

    return launch


def count() -> None:
    """What ncu watches: every counted launch once, in order."""
    launch = gpu()
    for text, kernel, args, shared_bytes in counted().values():
        launch(text, kernel, 1, args, shared_bytes)
    for whole in wholes().values():
        whole_on_gpu(whole)


def counters() -> dict[str, dict[str, int]]:
    command = ["ncu", "--clock-control", "none", "--csv", "--kernel-name", "regex:^(k|mma|wmma)_",
               "--metrics", ",".join(METRICS), sys.executable, __file__, "--count"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    by_launch: dict[int, dict[str, int]] = {}
    for row in csv.DictReader(lines):
        value = row["Metric Value"].replace(",", "")
        by_launch.setdefault(int(row["ID"]), {})[row["Metric Name"]] = int(float(value))
    names = [*counted(), *wholes()]
    assert len(by_launch) == len(names), (len(by_launch), len(names), done.stdout[-2000:])
    return {name: by_launch[i] for name, i in zip(names, sorted(by_launch), strict=True)}


def provenance() -> dict[str, str]:
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    return {
        "gpu": name, "driver": driver, "cupy": cupy.__version__,
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())), "arch": ARCH,
        "date": date.today().isoformat(),
        "command": "python ptxsim/hardware/record_tensor.py OUTDIR",
    }  # fmt: skip


def main(outdir: Path) -> None:
    launch, results = gpu(), {}
    for form in products().values():
        results[f"mma {form.opcode}"] = product_result(form, launch)
    for form in transfers().values():
        kind = "store" if form.stores else "fragment"
        results[f"{kind} {form.opcode}"] = transfer_result(form, launch)
    for opcode in (*MATRIX_FORMS, MOVE_FORM):
        results[f"rows {opcode}"] = matrix_result(opcode, launch)
    for name, form in wholes().items():
        results[f"kernel {name}"] = whole_on_gpu(form)
    results["operands"] = digest()
    results["provenance"] = json.dumps(provenance())
    outdir.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(outdir / "tensor.npz", **results)  # kept even if ncu is missing
    results["counters"] = json.dumps(counters())
    np.savez_compressed(outdir / "tensor.npz", **results)


if __name__ == "__main__":
    if sys.argv[1] == "--count":
        count()
    else:
        main(Path(sys.argv[1]))
