"""Exchange between the lanes of a warp: shuffles, votes, matches, reductions.

Values are taken as rows of one warp each (layout.to_warps), and the results turned back. `members`
is the instruction's mask of lanes (int32), `mask` the lanes that execute it.
"""

from __future__ import annotations

import numpy as np

from ptxsim.architectures import WARP

i4, u4 = np.int32, np.uint32
LANE = np.arange(WARP, dtype=i4)
BITS = u4(1) << LANE.astype(u4)


def shuffle(lanes, index: int, mode: str, value, by, clamp, members, mask):
    """shfl.sync: (the value of another lane, 0 if it takes no part; whether it is in range)."""
    lanes.check_members(index, members, mask)
    to_warps = lanes.layout.to_warps
    by, clamp = (_own(lanes, x) for x in (by, clamp))
    segment = (clamp >> 8) & 31
    last = (LANE & segment) | (clamp & 31 & ~segment)
    by = by & 31
    if mode == "up":
        source = LANE - by
        inside = source >= last
    else:
        source = {
            "down": LANE + by, "bfly": LANE ^ by, "idx": (LANE & segment) | (by & ~segment),
        }[mode]  # fmt: skip
        inside = source <= last
    source = np.where(inside, source, LANE)
    rows = to_warps(value)
    source = np.broadcast_to(source, rows.shape)
    result = np.take_along_axis(rows, source, axis=1)
    named = np.ones((1, 1), bool)
    if (np.asarray(members) != -1).any():
        named = (to_warps(members).view(u4) >> source.astype(u4)) & 1 != 0
    there = np.ones((1, 1), bool)
    if mask is not True or lanes.layout.threads % WARP:
        active = lanes.layout.active(mask)
        there = np.take_along_axis(active, source, axis=1)
        result = np.where(there, result, rows.dtype.type(0))
    if not (named.all() and there.all()):
        wrong = lanes.layout.from_warps(np.broadcast_to(~(named & there), rows.shape))
        wrong = lanes.both(mask, wrong)
        what = "takes the value of a lane that does not take part, which may be anything"
        lanes.find("shuffle from an absent lane", index, what, wrong)
    from_warps = lanes.layout.from_warps
    return from_warps(result), from_warps(np.broadcast_to(inside, rows.shape))


def _own(lanes, x):
    """An operand as rows of warps, or as it is where it is the same for all lanes."""
    return np.asarray(x) if np.ndim(x) == 0 else lanes.layout.to_warps(x)


def _members(lanes, index, members, mask) -> np.ndarray:
    """Who takes part: (warps, 32), or (warps, 32, 32) if lanes name different ones (last axis)."""
    lanes.check_members(index, members, mask)
    active = lanes.layout.active(mask)
    rows = lanes.layout.to_warps(members).view(u4)
    if (rows == rows[:, :1])[active].all():
        return active
    names_itself = (rows & BITS) != 0
    named = (rows[:, :, None] & BITS) != 0
    return named & (active & names_itself)[:, None, :]


def _for_all(lanes, values):
    return lanes.layout.from_warps(np.broadcast_to(values[:, None], (len(values), WARP)))


def _as_bits(rows) -> np.ndarray:
    return np.where(rows, BITS, u4(0)).sum(axis=-1, dtype=u4).view(i4)


def _of_group(lanes, values):
    return _for_all(lanes, values) if values.ndim == 1 else lanes.layout.from_warps(values)


def vote(lanes, index: int, how: str, condition, members, mask):
    """vote.sync: "all", "any", "uni" (truth) or "ballot" (int32, a bit for each lane)."""
    part = _members(lanes, index, members, mask)
    rows = lanes.layout.to_warps(condition)
    rows = rows if part.ndim == 2 else rows[:, None, :]
    if how == "ballot":
        return _of_group(lanes, _as_bits(rows & part))
    every, some = (rows | ~part).all(axis=-1), (rows & part).any(axis=-1)
    return _of_group(lanes, {"all": every, "any": some, "uni": every | ~some}[how])


def match(lanes, index: int, how: str, value, members, mask):
    """match.sync: (the lanes with the same value (int32), whether all have it)."""
    part = _members(lanes, index, members, mask)
    if lanes.checker:
        lanes.checker.matched(members, mask)
    rows = lanes.layout.to_warps(value)
    part = part[:, None, :] if part.ndim == 2 else part
    same = (rows[:, :, None] == rows[:, None, :]) & part
    if how == "any":
        return lanes.layout.from_warps(_as_bits(same)), np.bool_(True)
    every = (same == part).all(axis=2) & np.einsum("wii->wi", np.broadcast_to(part, same.shape))
    bits = np.where(every, _as_bits(np.broadcast_to(part, same.shape)), i4(0))
    return lanes.layout.from_warps(bits), lanes.layout.from_warps(every)


NEUTRAL = {"add": 0, "or": 0, "xor": 0, "and": -1}
COMBINE = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def reduce(lanes, index: int, how: str, value, members, mask):
    """redux.sync: the values of all lanes of each warp put together."""
    part = _members(lanes, index, members, mask)
    rows = lanes.layout.to_warps(value)
    limits = np.iinfo(rows.dtype)
    unchanged = {"min": limits.max, "max": limits.min, **NEUTRAL}[how]
    neutral = np.array(unchanged, np.int64).astype(rows.dtype)
    values = np.where(part, rows if part.ndim == 2 else rows[:, None, :], neutral)
    return _of_group(lanes, COMBINE[how].reduce(values, axis=-1, dtype=rows.dtype))


def elect(lanes, index: int, members, mask):
    """elect.sync: (the chosen lane, whether it is the own one). The lowest one is chosen."""
    part = _members(lanes, index, members, mask)
    leader = part.argmax(axis=-1).astype(i4)
    elected = (leader.reshape(len(part), -1) == LANE) & part.any(axis=-1, keepdims=part.ndim == 2)
    elected &= lanes.layout.active(mask)
    return _of_group(lanes, leader), lanes.layout.from_warps(elected)


def active_mask(lanes, mask):
    """activemask: the lanes that execute this together (int32)."""
    return _for_all(lanes, _as_bits(lanes.layout.active(mask)))
