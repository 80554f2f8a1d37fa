"""Matrices: mma, wmma, wgmma, ldmatrix, stmatrix and movmatrix."""

from __future__ import annotations

import re
from functools import cache

from ptxsim.instructions.memory import shared_address
from ptxsim.ptx import BOOL, FLOATS, SIGNED, Immediate, Unknown, Vector, items
from ptxsim.tensor_cores import fragments, wgmma
from ptxsim.tensor_cores import matrix_transfers as transfers
from ptxsim.tensor_cores.adding import BITS
from ptxsim.tensor_cores.mma import Product

SHAPES = {  # of mma.sync, by the type of A
    "f16": {"m16n8k8", "m16n8k16"}, "bf16": {"m16n8k8", "m16n8k16"},
    "tf32": {"m16n8k4", "m16n8k8"},
    "s8": {"m8n8k16", "m16n8k16", "m16n8k32"}, "u8": {"m8n8k16", "m16n8k16", "m16n8k32"},
    "e4m3": {"m16n8k16", "m16n8k32"}, "e5m2": {"m16n8k16", "m16n8k32"},
    "f64": {"m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"},
}  # fmt: skip
# The types that may be mixed, and the types of their sums.
FAMILIES = (
    ({"f16"}, {"f16", "f32"}), ({"bf16"}, {"f32"}), ({"tf32"}, {"f32"}),
    ({"e4m3", "e5m2"}, {"f16", "f32"}), ({"s8", "u8"}, {"s32"}),
)  # fmt: skip
WMMA_SHAPES = {"m16n16k16", "m32n8k16", "m8n32k16"}
TF32_SHAPE, DOUBLE_SHAPE = "m16n16k8", "m8n8k4"
GROUP, TF32_GROUP = 16, 4  # products added at once; wmma of tf32 becomes two steps of 4
LAYOUTS = {"row": False, "col": True}  # whether columns are contiguous


def _register_type(kind: str):
    return FLOATS["f64"] if kind == "f64" else SIGNED[4]


# --- products -------------------------------------------------------------------------------------


def op_mma(w, instruction, *operands):
    """mma.sync.aligned.SHAPE.row.col{.satfinite}.D.A.B.C"""
    _, sync, aligned, shape, *layouts = instruction.parts[:6]
    *flags, dt, at, bt, ct = _satfinite_first(instruction.parts[6:])
    if [sync, aligned, *layouts] != ["sync", "aligned", "row", "col"]:
        raise Unknown
    _multiply(w, instruction, _mma(shape, tuple(flags), dt, at, bt, ct), operands)


def _satfinite_first(parts) -> tuple[str, ...]:
    """ptxas takes `.satfinite` after the types too, where CUTLASS has it."""
    return ("satfinite", *parts[:-1]) if parts[-1:] == ("satfinite",) else parts


def _multiply(w, instruction, product, operands) -> None:
    dtype = _register_type(product.types[0])
    if tuple(len(items(operand)) for operand in operands) != product.registers:
        raise Unknown
    d, *sources = operands
    given = (w.tuple(items(operand), dtype) for operand in sources)
    w.assign_all(d, w.call(product.run, instruction, *given), dtype, instruction)


@cache
def _mma(shape: str, flags: tuple[str, ...], *types: str) -> Product:
    dt, at, bt, ct = types
    allowed = {(), ("satfinite",)} if dt == "s32" else {()}
    known = {dt, at, bt} == {"f64"} or _known(dt, at, bt)
    if shape not in SHAPES[at] or not known or ct != dt or flags not in allowed:
        raise Unknown
    m, n, k = _extents(shape)
    d, a, b, c = (
        fragments.of_product(matrix, m, n, k, BITS[kind])
        for matrix, kind in zip("dabc", types, strict=True)
    )
    return Product((dt, at, bt, ct), (d, a, b, c), GROUP, dt, bool(flags))


def _known(dt: str, at: str, bt: str) -> bool:
    return any({at, bt} <= family and dt in sums for family, sums in FAMILIES)


def _extents(shape: str) -> tuple[int, int, int]:
    m, n, k = map(int, re.findall(r"\d+", shape))
    return m, n, k


@cache
def _wmma(shape: str, saturate: bool, *types: str) -> Product:
    dt, at, bt, ct = types
    integral = at in ("s8", "u8")
    sums = {"f16": {"f16", "f32"}, "f64": {"f64"}}.get(at, {"s32" if integral else "f32"})
    if at != bt or not {dt, ct} <= sums or (saturate and not integral):
        raise Unknown
    d, a, b, c = (
        _fragment(matrix, shape, kind) for matrix, kind in zip("dabc", types, strict=True)
    )
    # Of two sums of different types the hardware computes in float32 and converts.
    inner = "f16" if (dt, ct) == ("f16", "f16") else "f32"
    group = TF32_GROUP if at == "tf32" else GROUP
    return Product((dt, at, bt, ct), (d, a, b, c), group, inner, saturate)


def _fragment(matrix: str, shape: str, kind: str) -> fragments.Fragment:
    allowed = {"tf32": {TF32_SHAPE}, "f64": {DOUBLE_SHAPE}}.get(kind, WMMA_SHAPES)
    if shape not in allowed | ({TF32_SHAPE} if matrix in "cd" and kind != "f64" else set()):
        raise Unknown
    m, n, k = _extents(shape)
    bits = BITS[kind]
    rows, cols = {"a": (m, k), "b": (k, n)}.get(matrix, (m, n))
    registers = rows * cols * bits // (max(32, bits) * fragments.WARP)
    if kind == "f16" and matrix in "ab":
        registers = 8  # for every shape
    return fragments.of_wmma(matrix, m, n, k, bits, registers)


# --- products of a warpgroup ----------------------------------------------------------------------


def op_wgmma(w, instruction, *operands):
    """wgmma.mma_async, .fence, .commit_group and .wait_group"""
    what, *rest = instruction.parts[1:]
    if rest[:2] != ["sync", "aligned"]:
        raise Unknown
    if what == "mma_async":
        _mma_async(w, instruction, rest[2:], *operands)
        return
    known = what in ("fence", "commit_group", "wait_group") and not rest[2:]
    if not known or len(operands) != (what == "wait_group"):
        raise Unknown
    w.lines.append(w.call(wgmma.order, instruction, repr(what), _immediates(operands)))


def _immediates(operands) -> tuple:
    if not all(isinstance(operand, Immediate) for operand in operands):
        raise Unknown
    return tuple(operand.value for operand in operands)


def _mma_async(w, instruction, parts, d, a, b, keep, *how):
    """wgmma.mma_async.sync.aligned.SHAPE{.satfinite}.D.A.B, with A in registers or not."""
    shape = parts[0]
    *flags, dt, at, bt = _satfinite_first(tuple(parts[1:]))
    m, n, k = _extents(shape)
    integral, halves, in_memory = dt == "s32", BITS[at] == 16, not isinstance(a, Vector)
    allowed = {(), ("satfinite",)} if integral else {()}
    more = 0 if integral else 2 + (1 + in_memory if halves else 0)
    if not _known(dt, at, bt) or tuple(flags) not in allowed or len(how) != more:
        raise Unknown
    numbers = _immediates(how)
    signs, across = numbers[:2] or (1, 1), (0, 0, *numbers[2:])[-2:]
    if not set(signs) <= {1, -1} or not set(across) <= {0, 1}:
        raise Unknown
    product = wgmma.GroupProduct((dt, at, bt), n, signs, tuple(map(bool, across)), bool(flags))
    wide = n in range(8, 257, 8) and (not integral or n % 16 == 0 or n in (8, 24))
    counts = product.registers, 1 if in_memory else wgmma.LEFT_REGISTERS
    if (m, k) != (wgmma.ROWS, product.k) or not wide or counts != (len(items(d)), len(items(a))):
        raise Unknown
    left = w.tuple(items(a), SIGNED[8 if in_memory else 4])
    scale = bool(keep.value) if isinstance(keep, Immediate) else w.value(keep, BOOL)
    given = w.tuple(items(d), SIGNED[4]), left, w.value(b, SIGNED[8]), scale
    w.assign_all(d, w.call(product.run, instruction, *given), SIGNED[4], instruction)


# --- between memory and registers -----------------------------------------------------------------


def op_wmma(w, instruction, *operands):
    """wmma.mma, wmma.load.{a,b,c} and wmma.store.d"""
    what = instruction.parts[1]
    {"mma": _wmma_mma, "load": _wmma_load, "store": _wmma_store}[what](w, instruction, *operands)


def _wmma_mma(w, instruction, *operands):
    """wmma.mma.sync.aligned.{row,col}.{row,col}.SHAPE.D{.A.B}.C{.satfinite}"""
    sync, aligned, a_layout, b_layout, shape, *types = instruction.parts[2:]
    if (sync, aligned) != ("sync", "aligned") or not {a_layout, b_layout} <= set(LAYOUTS):
        raise Unknown
    saturate = types[-1] == "satfinite"
    types = types[:-1] if saturate else types
    if len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    types = types[:-1] if types[-2:] == ["f64", "rn"] else types
    _multiply(w, instruction, _wmma(shape, saturate, *types), operands)


def _wmma_load(w, instruction, target, *place):
    if instruction.parts[2] not in "abc":
        raise Unknown
    transfer, given, dtype = _transfer(w, instruction, target, *place)
    w.assign_all(target, w.call(transfer.load, instruction, *given), dtype, instruction)


def _wmma_store(w, instruction, address, source, *stride):
    if instruction.parts[2] != "d":
        raise Unknown
    transfer, given, dtype = _transfer(w, instruction, source, address, *stride)
    w.lines.append(w.call(transfer.store, instruction, *given, w.tuple(items(source), dtype)))


def _transfer(w, instruction, registers, address, stride=None):
    """wmma.load.a.sync.aligned.LAYOUT.SHAPE{.SPACE}.TYPE: the transfer, address, stride, type."""
    matrix, sync, aligned, layout, shape, *space, kind = instruction.parts[2:]
    space = space[0].removesuffix("::cta") if space else "generic"
    if (sync, aligned) != ("sync", "aligned") or space not in ("global", "shared", "generic"):
        raise Unknown
    by_columns, dtype = LAYOUTS[layout], _register_type(kind)
    fragment = _fragment(matrix, shape, kind)
    transfer = transfers.Transfer(fragment, by_columns, space, matrix in "ab")
    if len(items(registers)) != fragment.registers:
        raise Unknown
    rows, cols = fragment.shape
    place = w.address(address, SIGNED[4] if space == "shared" else SIGNED[8])
    if stride is None:  # then lines follow one another
        return transfer, (place, rows if by_columns else cols), dtype
    return transfer, (place, w.value(stride, SIGNED[4])), dtype


def _matrices(w, instruction, address, registers) -> tuple[str, int, bool]:
    """Of {ld,st}matrix.sync.aligned.m8n8.x4{.trans}.shared.b16: where, how many, if transposed.

    ptxas takes the parts behind `aligned` in any order, and DeepGEMM writes `trans` last.
    """
    parts = [part.removesuffix("::cta") for part in instruction.parts[1:]]
    count = len(items(registers))
    needed = ["sync", "aligned", "m8n8", f"x{count}", "b16"]
    if parts[:2] != needed[:2] or not set(needed) <= set(parts):
        raise Unknown
    if count not in (1, 2, 4) or set(parts) - {*needed, "trans", "shared"}:
        raise Unknown
    return shared_address(w, address, "shared" in parts), count, "trans" in parts


def op_ldmatrix(w, instruction, target, address):
    given = _matrices(w, instruction, address, target)
    text = w.call(transfers.load_matrices, instruction, *given)
    w.assign_all(target, text, SIGNED[4], instruction)


def op_stmatrix(w, instruction, address, source):
    place, _, transposed = _matrices(w, instruction, address, source)
    given = place, w.tuple(items(source), SIGNED[4]), transposed
    w.lines.append(w.call(transfers.store_matrices, instruction, *given))


def op_movmatrix(w, instruction, target, source):
    if instruction.opcode != "movmatrix.sync.aligned.m8n8.trans.b16":
        raise Unknown
    text = w.call(transfers.transpose, instruction, w.value(source, SIGNED[4]))
    w.assign(target, text, SIGNED[4], instruction)
