"""Integer operations that NumPy has not: fields of bits, shifts of two words, sums of bytes.

Every function takes and gives integer arrays or scalars of any broadcastable shapes. A shift
amount, a position or a length is uint32.
"""

from __future__ import annotations

import numpy as np

i4, i8, u1, u2, u4, u8 = np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64

REVERSED_BYTES = np.array([int(f"{i:08b}"[::-1], 2) for i in range(256)], u1)
SET_BITS = np.array([i.bit_count() for i in range(256)], u1)


def _bits(x) -> int:
    return 8 * x.dtype.itemsize


def _unsigned(x):
    return np.asarray(x).view(f"u{x.dtype.itemsize}")


# --- counting and finding bits ----------------------------------------------------------------


def count_bits(x):
    """How many bits are 1 (int32)."""
    return SET_BITS[_bytes(x)].sum(axis=-1, dtype=i4)


def highest_bit(x):
    """The position of the highest bit that is 1 (int32); -1 if none is."""
    x = _unsigned(x).astype(u8)
    position = np.full(x.shape, -1, i4)
    for step in (32, 16, 8, 4, 2, 1):
        upper = (x >> u8(step)) != 0
        x = np.where(upper, x >> u8(step), x)
        position = position + np.where(upper, i4(step), i4(0))
    return position + (x != 0)


def leading_zeros(x):
    """How many bits above the highest 1 (int32)."""
    return i4(_bits(x) - 1) - highest_bit(x)


def find_bit(x, shift_amount: bool):
    """bfind: the highest bit that differs from the sign, or how far left it has to be shifted."""
    if x.dtype.kind == "i":
        x = np.where(x < 0, ~x, x)
    position = highest_bit(x)
    distance = i4(_bits(x) - 1) - position if shift_amount else position
    return np.where(position < 0, i4(-1), distance).view(u4)


def reverse_bits(x):
    turned = REVERSED_BYTES[_bytes(x)][..., ::-1]
    return np.ascontiguousarray(turned).view(x.dtype)[..., 0]


def _bytes(x):
    return np.ascontiguousarray(np.asarray(x)[..., None]).view(u1)


# --- fields -------------------------------------------------------------------------------------


def extract_field(x, position, length):
    """bfe: `length` bits of `x` from `position`, extended by zeros or by their sign."""
    bits = _bits(x)
    position, length = (_place(n, bits) for n in (position, length))
    last = np.minimum(position + length - 1, bits - 1)
    unsigned = _unsigned(x).astype(u8)
    field = np.where(position < 64, unsigned >> np.minimum(position, 63).astype(u8), u8(0))
    mask = _mask(length)
    if x.dtype.kind == "u":
        return (field & mask).astype(x.dtype)
    sign = (unsigned >> np.maximum(last, 0).astype(u8)) & u8(1) != 0
    # What lies above the highest bit of x, or above the field, are copies of the sign.
    inside = _mask(np.clip(np.minimum(length, bits - position), 0, 64))
    extended = np.where(sign, field & inside | ~inside, field & inside)
    return np.where(length == 0, u8(0), extended).astype(_unsigned(x).dtype).view(x.dtype)


def insert_field(x, into, position, length):
    """bfi: `into` with the lowest `length` bits of `x` at `position`."""
    position, length = (_place(n, _bits(x)) for n in (position, length))
    shift = np.minimum(position, 63).astype(u8)
    mask = np.where(position < 64, _mask(length) << shift, u8(0))
    moved = _unsigned(x).astype(u8) << shift
    result = (moved & mask) | (_unsigned(into).astype(u8) & ~mask)
    return result.astype(_unsigned(x).dtype).view(x.dtype)


def _place(n, bits: int):
    """A position or length as the hardware takes it: of 32-bit fields the lowest byte."""
    n = np.asarray(n).astype(i8)
    return n & 0xFF if bits == 32 else n


def _mask(length):
    """uint64 with the lowest `length` bits (int64, 0 and more) set."""
    length = np.asarray(length)
    return np.where(length >= 64, ~u8(0), (u8(1) << np.minimum(length, 63).astype(u8)) - u8(1))


def _limited(n, clamp: bool):
    n = np.asarray(n).astype(i8)
    return np.minimum(n, 32) if clamp else n & 31


def field_mask(position, length, clamp: bool):
    """bmsk: `length` bits that are 1 from `position` (int32)."""
    position, length = (_limited(n, clamp) for n in (position, length))
    return (_mask(length) << position.astype(u8)).astype(u4).view(i4)


def extend(x, position, clamp: bool):
    """szext: the lowest `position` bits of 32-bit `x`, extended by zeros or by their sign."""
    return extract_field(x, u4(0), _limited(position, clamp).astype(u4))


def shift_pair(low, high, amount, left: bool, clamp: bool):
    """shf: the upper word of high:low shifted left, or the lower one shifted right (uint32)."""
    amount = _limited(amount, clamp).astype(u8)
    pair = (np.asarray(high).astype(u8) << u8(32)) | np.asarray(low).astype(u8)
    return ((pair << amount) >> u8(32) if left else pair >> amount).astype(u4)


def logic(a, b, c, table: int):
    """lop3: bit by bit what stands in the 8-bit truth table at 4 a + 2 b + c."""
    result = np.zeros((), a.dtype)
    for row in range(8):
        if table >> row & 1:
            x, y, z = (v if row >> place & 1 else ~v for v, place in ((a, 2), (b, 1), (c, 0)))
            result = result | (x & y & z)
    return result


# Bytes of b:a that prmt picks in its modes, lowest first, by the lowest two bits of the selector.
PICKS = {
    "f4e": [[(i + n) % 8 for n in range(4)] for i in range(4)],
    "b4e": [[(i - n) % 8 for n in range(4)] for i in range(4)],
    "rc8": [[i] * 4 for i in range(4)],
    "ecl": [[max(i, n) for n in range(4)] for i in range(4)],
    "ecr": [[min(i, n) for n in range(4)] for i in range(4)],
    "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
}


def permute(a, b, selector, mode: str | None):
    """prmt: four bytes of b:a (uint32). A selector's nibble of 8 and more copies the sign."""
    pair = (np.asarray(b).astype(u8) << u8(32)) | np.asarray(a).astype(u8)
    selector = np.asarray(selector).astype(u4)
    result = u4(0)
    for n in range(4):
        if mode:
            pick = np.array([row[n] for row in PICKS[mode]], u8)[selector & u4(3)]
            sign = False
        else:
            nibble = selector >> u4(4 * n)
            pick, sign = (nibble & u4(7)).astype(u8), (nibble & u4(8)) != 0
        byte = ((pair >> (pick * u8(8))) & u8(0xFF)).astype(u4)
        byte = np.where(sign, (byte >> u4(7)) * u4(0xFF), byte)
        result = result | byte << u4(8 * n)
    return result


# --- sums -----------------------------------------------------------------------------------------


def absolute_difference(a, b):
    return np.where(a > b, a - b, b - a)


def clamp_to(x, dtype):
    limits, source = np.iinfo(dtype), np.iinfo(x.dtype)
    low, high = max(limits.min, source.min), min(limits.max, source.max)
    return np.clip(x, x.dtype.type(low), x.dtype.type(high)).astype(dtype)


def multiply_24(a, b, high: bool):
    """The 48-bit product of the lowest 24 bits (int32 or uint32): its lower or upper 32 bits."""
    wide = i8 if a.dtype.kind == "i" else u8
    a, b = (((x << 8) >> 8).astype(wide) for x in (np.asarray(a), np.asarray(b)))
    return (a * b >> wide(16 if high else 0)).astype(i4 if wide is i8 else u4)


def dot(a, b, c, signed_a: bool, signed_b: bool, half: str | None):
    """c plus products, int32, modulo 2**32: dp4a, of four bytes, has no `half`.

    dp2a: of two halves of `a` and the lower ("lo") or upper two bytes ("hi") of `b`.
    """
    x, y = _parts(a, 2 if half else 4, signed_a), _parts(b, 4, signed_b)
    y = {None: y, "lo": y[..., :2], "hi": y[..., 2:]}[half]
    return c + (x * y).sum(axis=-1, dtype=i4)


def _parts(x, count: int, signed: bool):
    dtype = np.dtype(f"{'i' if signed else 'u'}{4 // count}")
    return np.ascontiguousarray(np.asarray(x)[..., None]).view(dtype).astype(i4)


def each_16_bits(function, *words, signed: bool):
    """`function` on the lower and the upper 16 bits of 32-bit words (int32), each by itself."""
    dtype = np.dtype("i2" if signed else "u2")
    low, high = (
        np.asarray(function(*((w >> i4(shift)).astype(dtype) for w in words))).view(u2).astype(u4)
        for shift in (0, 16)
    )
    return (low | high << u4(16)).view(i4)


def not_negative(function, a, b):
    result = function(a, b)
    return np.where(result < 0, result.dtype.type(0), result)


# --- carry ----------------------------------------------------------------------------------------


def add_with_carry(a, b, carry):
    """(a + b + carry, the carry out of it) of unsigned integers; `carry` is a mask or False."""
    total = a + b
    out = total < a
    final = total + np.asarray(carry).astype(total.dtype)
    return final, out | (final < total)


def subtract_with_borrow(a, b, borrow):
    """(a - b - borrow, the borrow out of it) of unsigned integers."""
    borrow = np.asarray(borrow)
    final = a - b - borrow.astype(a.dtype)
    return final, (a < b) | ((a == b) & borrow)
