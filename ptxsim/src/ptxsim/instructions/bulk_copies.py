"""The forms of cp.async.bulk and cp.reduce.async.bulk, and st.async and red.async.

Stretches and boxes, loads and stores, and groups of stores.
"""

from __future__ import annotations

from ptxsim.async_copy.bulk_stores import reduction
from ptxsim.memory import atomics
from ptxsim.ptx import Coordinates, Immediate, Vector
from ptxsim.types import SIGNED, UNSIGNED, Unknown, type_of

SHARED = {"shared::cta", "shared::cluster"}
TOLD, HINT, MULTICAST = "mbarrier::complete_tx::bytes", "L2::cache_hint", "multicast::cluster"
LOAD_HINTS = {TOLD, HINT, "tile", MULTICAST}
STORE_HINTS = {"bulk_group", HINT, "tile"}
OPERATIONS = {"add", "min", "max", "inc", "dec", "and", "or", "xor"}
ASYNC_STORE = {"weak", "shared::cluster", TOLD, "v2", "v4"}
ASYNC_REDUCTION = {"relaxed", "cluster", "shared::cluster", TOLD}


def write(w, instruction, operands) -> None:
    """Add the lines for cp.async.bulk.…, whose further parts are one of the following."""
    parts = instruction.parts[3:]
    mask = w.mask(instruction)
    if parts == ("commit_group",):
        _call(w, f"bulk_stores.commit({mask})")
    elif parts[0] == "wait_group" and parts[1:] in ((), ("read",)):
        (most,) = operands
        if not isinstance(most, Immediate):
            raise Unknown
        _call(w, f"bulk_stores.wait({most.value}, {'read' in parts}, {mask})")
    elif parts[0] == "prefetch":
        return  # results do not depend on what is in a cache
    elif parts[0] == "tensor":
        _box(w, instruction, parts[1:], operands, None)
    else:
        _stretch(w, instruction, parts, operands, None)


def write_reduction(w, instruction, operands) -> None:
    """Add the lines for cp.reduce.async.bulk.…: a store, or a copy to a block of the cluster."""
    parts = instruction.parts[4:]
    how = [part for part in parts if part in OPERATIONS]
    if len(how) != 1:
        raise Unknown
    if parts[0] == "tensor":
        parts = tuple(part for part in parts[1:] if part not in OPERATIONS)
        _box(w, instruction, parts, operands, how[0])
        return
    *parts, kind = (part for part in parts if part not in OPERATIONS and part != "noftz")
    _stretch(w, instruction, tuple(parts), operands, (how[0], kind))


def _stretch(w, instruction, parts, operands, reduced) -> None:
    """`reduced`: (operation, type) of a reduction, or None."""
    index, mask, (to, source, size, *rest) = instruction.index, w.mask(instruction), operands
    size = w.value(size, SIGNED[4])
    if parts[0] in SHARED and parts[1] == "global" and not set(parts[2:]) - LOAD_HINTS:
        mbarrier, *ranks = rest
        if reduced:
            raise Unknown
        _call(
            w,
            f"bulk.load({index}, {w.address(to, SIGNED[4])}, {w.address(source, SIGNED[8])}, "
            f"{size}, {w.address(mbarrier, SIGNED[4])}, {_ranks(w, instruction, ranks)}, {mask})",
        )
    elif parts[:2] == ("shared::cluster", "shared::cta") and parts[2:] == (TOLD,):
        (mbarrier,) = rest
        operation = w.constant(atomics.operation_of(*reduced) if reduced else None)
        _call(
            w,
            f"bulk.copy_across({index}, {w.address(to, SIGNED[4])}, "
            f"{w.address(source, SIGNED[4])}, {size}, {w.address(mbarrier, SIGNED[4])}, "
            f"{operation}, {mask})",
        )
    elif parts[:2] == ("global", "shared::cta") and not set(parts[2:]) - STORE_HINTS:
        operation = w.constant(reduction(*reduced) if reduced else None)
        _call(
            w,
            f"bulk_stores.store({index}, {w.address(to, SIGNED[8])}, "
            f"{w.address(source, SIGNED[4])}, {size}, {operation}, {mask})",
        )
    else:
        raise Unknown


def _ranks(w, instruction, operands) -> str:
    """The bits of the blocks that get a copy; behind them may be a policy for a cache."""
    if len(operands) != (MULTICAST in instruction.parts) + (HINT in instruction.parts):
        raise Unknown
    return w.value(operands[0], UNSIGNED[2]) if MULTICAST in instruction.parts else "None"


def _box(w, instruction, parts, operands, how: str | None) -> None:
    """cp.async.bulk.tensor.2d.… [to], [map, {x, y}], [mbarrier], or [map, {x, y}], [from].

    `how`: the operation of a reduction, or None.
    """
    axes, to, source, *rest = parts
    index, mask = instruction.index, w.mask(instruction)
    if to in SHARED and source == "global" and not set(rest) - LOAD_HINTS and how is None:
        place, box, mbarrier, *ranks = operands
    elif (to, source) == ("global", "shared::cta") and not set(rest) - STORE_HINTS:
        box, place = operands[:2]
        mbarrier = None
    else:
        raise Unknown
    if not isinstance(box, Coordinates) or axes != f"{len(box.items)}d":
        raise Unknown
    coordinates = "".join(f"{w.value(one, SIGNED[4])}, " for one in box.items)
    where = f"{w.address(place, SIGNED[4])}, {w.value(box.base, SIGNED[8])}, ({coordinates})"
    if mbarrier is None:
        _call(w, f"bulk_stores.store_box({index}, {where}, {how!r}, {mask})")
    else:
        _call(
            w,
            f"bulk.load_box({index}, {where}, {w.address(mbarrier, SIGNED[4])}, "
            f"{_ranks(w, instruction, ranks)}, {mask})",
        )


def _call(w, text: str) -> None:
    w.lines.append(f"lanes.copies.{text}")


# --- stores and reductions of a few bytes ---------------------------------------------------------


def write_async_store(w, instruction, address, source, mbarrier) -> None:
    """Add the lines for st.async [address], source, [mbarrier]."""
    *hints, kind = instruction.parts[2:]
    if set(hints) - ASYNC_STORE:
        raise Unknown
    dtype = type_of(kind)
    sources = source.items if isinstance(source, Vector) else (source,)
    values = "".join(f"{w.value(one, dtype)}, " for one in sources)
    _start(w, instruction, address, values, dtype, mbarrier, None)


def write_async_reduction(w, instruction, address, source, mbarrier) -> None:
    """Add the lines for red.async [address], source, [mbarrier]."""
    *hints, how, kind = instruction.parts[2:]
    if set(hints) - ASYNC_REDUCTION or kind not in ("u32", "s32", "b32", "u64"):
        raise Unknown
    operation, dtype = atomics.operation_of(how, kind)
    _start(w, instruction, address, f"{w.value(source, dtype)}, ", dtype, mbarrier, operation)


def _start(w, instruction, address, values, dtype, mbarrier, operation) -> None:
    _call(
        w,
        f"bulk.store_async({instruction.index}, {w.address(address, SIGNED[4])}, ({values}), "
        f"{w.dtype(dtype)}, {w.address(mbarrier, SIGNED[4])}, {w.constant(operation)}, "
        f"{w.mask(instruction)})",
    )
