"""Asynchronous copies: cp.async, cp.async.bulk, st.async and red.async; mbarriers; tensor maps."""

from __future__ import annotations

import numpy as np

from ptxsim import ptx
from ptxsim.async_copy import map_bytes
from ptxsim.async_copy.mbarrier import pending_count
from ptxsim.async_copy.tensor_map import MAP_BYTES
from ptxsim.memory import atomics
from ptxsim.ptx import BOOL, SIGNED, UNSIGNED, Immediate, Register, Symbol, Unknown, items, type_of

TOLD, HINT, MULTICAST = "mbarrier::complete_tx::bytes", "L2::cache_hint", "multicast::cluster"
SHARED = {"shared", "shared::cta", "shared::cluster"}
CACHES = {"ca", "cg", HINT, "L2::64B", "L2::128B", "L2::256B", "global", "shared", "shared::cta"}
# The order of memory, and who is to see it: stores are seen at once.
ORDER = {"release", "acquire", "relaxed", "cta", "cluster", "b64", *SHARED}


def op_cp(w, instruction, *operands):
    parts, mask = instruction.parts[1:], w.mask(instruction)
    if parts[:2] == ("async", "bulk"):
        _bulk(w, instruction, operands)
    elif parts[:3] == ("reduce", "async", "bulk"):
        _bulk_reduction(w, instruction, operands)
    elif parts == ("async", "commit_group"):
        _call(w, f"commit({mask})")
    elif parts == ("async", "wait_group"):
        _call(w, f"wait({_number(*operands)}, {mask})")
    elif parts == ("async", "wait_all"):
        _call(w, f"commit({mask})")
        _call(w, f"wait(0, {mask})")
    elif parts[:3] == ("async", "mbarrier", "arrive"):
        if set(parts[3:]) - {"noinc", "b64", *SHARED}:
            raise Unknown
        w.tell(instruction, "copies.arrive", w.address(operands[0], SIGNED[4]), "noinc" in parts)
    elif parts[0] == "async" and not set(parts[1:]) - CACHES:
        _copy(w, instruction, operands)
    else:
        raise Unknown


def _call(w, text: str) -> None:
    w.lines.append(f"lanes.copies.{text}")


def _number(operand) -> int:
    if not isinstance(operand, Immediate):
        raise Unknown
    return int(operand.value)


def _copy(w, instruction, operands):
    """cp.async.ca.shared.global [to], [from], size {, bytes to read or a predicate} {, policy}."""
    to, source, size, *rest = operands
    if HINT in instruction.parts:
        rest = rest[:-1]
    read, ignored = None, None
    if rest:
        (given,) = rest
        if isinstance(given, Register) and w.types[given.name] == BOOL:
            ignored = w.value(given, BOOL)
        else:
            read = w.value(given, SIGNED[4])
    past_l1 = "cg" in instruction.parts
    if size.value not in (4, 8, 16) or (past_l1 and size.value != 16):
        raise Unknown
    places = w.address(to, SIGNED[4]), w.address(source, SIGNED[8])
    w.tell(instruction, "copies.start", size.value, *places, read, ignored, past_l1)


# --- bulk copies ----------------------------------------------------------------------------------

PAIR = "cta_group::2"  # then the mbarrier may be that of the pair's other block
LOAD_HINTS = {TOLD, HINT, "tile", MULTICAST}
STORE_HINTS = {"bulk_group", HINT, "tile"}
OPERATIONS = {"add", "min", "max", "inc", "dec", "and", "or", "xor"}
ASYNC_STORE = {"weak", "shared::cluster", TOLD, "v2", "v4"}
ASYNC_REDUCTION = {"relaxed", "cluster", "shared::cluster", TOLD}


def _bulk(w, instruction, operands) -> None:
    """cp.async.bulk.…, whose further parts are one of the following."""
    parts, mask = instruction.parts[3:], w.mask(instruction)
    if parts == ("commit_group",):
        _call(w, f"bulk_stores.commit({mask})")
    elif parts[0] == "wait_group" and parts[1:] in ((), ("read",)):
        _call(w, f"bulk_stores.wait({_number(*operands)}, {'read' in parts}, {mask})")
    elif parts[0] == "tensor":
        _box(w, instruction, parts[1:], operands, None)
    elif parts[0] != "prefetch":  # results do not depend on what is in a cache
        _stretch(w, instruction, parts, operands, None)


def _bulk_reduction(w, instruction, operands) -> None:
    """cp.reduce.async.bulk.…: a store, or a copy to a block of the cluster."""
    parts = instruction.parts[4:]
    (how,) = OPERATIONS.intersection(parts)
    parts = tuple(part for part in parts if part not in (how, "noftz"))
    if parts[0] == "tensor":
        _box(w, instruction, parts[1:], operands, how)
    else:
        _stretch(w, instruction, parts[:-1], operands, (how, parts[-1]))


def _stretch(w, instruction, parts, operands, reduced) -> None:
    """`reduced`: (operation, type) of a reduction, or None."""
    to, source, size, *rest = operands
    into_shared, from_shared = (part in SHARED for part in parts[:2])
    to = w.address(to, SIGNED[4 if into_shared else 8])
    source = w.address(source, SIGNED[4 if from_shared else 8])
    operation = w.constant(atomics.operation_of(*reduced) if reduced else None)
    given = [to, source, w.value(size, SIGNED[4])]
    if into_shared and parts[1] == "global" and not set(parts[2:]) - LOAD_HINTS and not reduced:
        mbarrier, *ranks = rest
        given += [w.address(mbarrier, SIGNED[4]), _ranks(w, instruction, ranks)]
        w.tell(instruction, "copies.bulk.load", *given)
    elif parts == ("shared::cluster", "shared::cta", TOLD):
        (mbarrier,) = rest
        given += [w.address(mbarrier, SIGNED[4]), operation]
        w.tell(instruction, "copies.bulk.copy_across", *given)
    elif parts[:2] == ("global", "shared::cta") and not set(parts[2:]) - STORE_HINTS:
        w.tell(instruction, "copies.bulk_stores.store", *given, operation)
    else:
        raise Unknown


def _ranks(w, instruction, operands) -> str:
    """The bits of the blocks that get a copy; behind them may be a policy for a cache."""
    if len(operands) != (MULTICAST in instruction.parts) + (HINT in instruction.parts):
        raise Unknown
    return w.value(operands[0], UNSIGNED[2]) if MULTICAST in instruction.parts else "None"


def _box(w, instruction, parts, operands, how: str | None) -> None:
    """cp.async.bulk.tensor.2d.… [to], [map, {x, y}], [mbarrier], or [map, {x, y}], [from]."""
    axes, to, source, *rest = (part for part in parts if part not in (PAIR, "cta_group::1"))
    loads = to in SHARED and source == "global" and how is None and not set(rest) - LOAD_HINTS
    stores = (to, source) == ("global", "shared::cta") and not set(rest) - STORE_HINTS
    place, box = operands[:2] if loads else operands[1::-1]
    if (
        not (loads or stores)
        or not isinstance(box, ptx.Coordinates)
        or axes != f"{len(box.items)}d"
    ):
        raise Unknown
    coordinates = w.tuple(box.items, SIGNED[4])
    where = w.address(place, SIGNED[4]), w.value(box.base, SIGNED[8]), coordinates
    if loads:
        mbarrier, ranks = w.address(operands[2], SIGNED[4]), _ranks(w, instruction, operands[3:])
        w.tell(instruction, "copies.bulk.load_box", *where, mbarrier, ranks, PAIR in parts)
    else:
        w.tell(instruction, "copies.bulk_stores.store_box", *where, repr(how))


def write_async_store(w, instruction, address, source, mbarrier) -> None:
    """Add the lines for st.async [address], source, [mbarrier]."""
    *hints, kind = instruction.parts[2:]
    if set(hints) - ASYNC_STORE:
        raise Unknown
    _start(w, instruction, address, source, type_of(kind), mbarrier, None)


def write_async_reduction(w, instruction, address, source, mbarrier) -> None:
    """Add the lines for red.async [address], source, [mbarrier]."""
    *hints, how, kind = instruction.parts[2:]
    if set(hints) - ASYNC_REDUCTION or kind not in ("u32", "s32", "b32", "u64"):
        raise Unknown
    operation, dtype = atomics.operation_of(how, kind)
    _start(w, instruction, address, source, dtype, mbarrier, operation)


def _start(w, instruction, address, source, dtype, mbarrier, operation) -> None:
    given = [w.address(address, SIGNED[4]), w.tuple(items(source), dtype), w.dtype(dtype)]
    given += [w.address(mbarrier, SIGNED[4]), w.constant(operation)]
    w.tell(instruction, "copies.bulk.store_async", *given)


# --- mbarriers ------------------------------------------------------------------------------------

METHODS = {"init": "init", "inval": "invalidate", "expect_tx": "expect_bytes",
           "complete_tx": "expect_bytes"}  # fmt: skip


def op_mbarrier(w, instruction, *operands):
    what, *rest = instruction.parts[1:]
    if what in ("test_wait", "try_wait"):
        _wait(w, instruction, rest, operands)
    elif what == "pending_count":
        target, state = operands
        w.apply(instruction, target, SIGNED[4], pending_count, w.value(state, SIGNED[8]))
    elif what in ("arrive", "arrive_drop") and not set(rest) - ORDER - {"expect_tx", "noComplete"}:
        _arrive(w, instruction, rest, operands, what == "arrive_drop")
    elif set(rest) - ORDER:
        raise Unknown
    else:
        address, *number = operands
        given = [w.address(address, SIGNED[4]), *w.values(number, SIGNED[4])]
        if what == "complete_tx":
            given[-1] = f"-{given[-1]}"
        w.tell(instruction, f"copies.mbarriers.{METHODS[what]}", *given)


def _arrive(w, instruction, rest, operands, drop: bool) -> None:
    target, address, *number = operands
    number = w.value(number[0], SIGNED[4]) if number else w.constant(np.int32(1))
    count, announced = (1, number) if "expect_tx" in rest else (number, 0)
    given = f"{w.address(address, SIGNED[4])}, {count}, {announced}, {w.mask(instruction)}, {drop}"
    text = f"lanes.copies.mbarriers.arrive({instruction.index}, {given})"
    if target == Symbol("_"):
        w.lines.append(text)
    else:
        w.assign(target, text, SIGNED[8], instruction)


def _wait(w, instruction, rest, operands) -> None:
    by_parity = "parity" in rest
    if set(rest) - ORDER - {"parity"} or instruction.predicate is not None:
        raise Unknown
    target, address, waited = operands[:3]  # a fourth one is how long to wait at most
    given = f"{w.address(address, SIGNED[4])}, {w.value(waited, SIGNED[4 if by_parity else 8])}"
    text = f"lanes.copies.mbarriers.completed({instruction.index}, {given}, {by_parity}, mask)"
    w.assign(target, text, BOOL, instruction)
    w.tried = w.variable(target.name)


# --- tensor maps ----------------------------------------------------------------------------------

IMMEDIATE = {"elemtype", "interleave_layout", "swizzle_mode", "fill_mode"}  # PTX has no others
COPIED = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{}.sync.aligned"
SCOPES = ("cta", "cluster", "gpu", "sys")


def op_tensormap(w, instruction, address, *operands):
    if instruction.opcode in map(COPIED.format, SCOPES):
        source, size = operands
        if size.value != MAP_BYTES:
            raise Unknown
        places = w.address(address, SIGNED[8]), w.address(source, SIGNED[4])
        w.lines.append(w.call(map_bytes.copy_to_global, instruction, *places))
        return
    what, mode, field, *space, whole, kind = instruction.parts[1:]
    if (what, mode, whole) != ("replace", "tile", "b1024") or field not in map_bytes.FIELDS:
        raise Unknown
    *ordinal, value = operands
    ordinals = len(map_bytes.FIELDS[field].parts)
    at = ordinal[0].value if ordinal else 0
    if len(ordinal) != (ordinals > 1) or not 0 <= at < ordinals:
        raise Unknown
    if field in IMMEDIATE and not isinstance(value, Immediate):
        raise Unknown
    (space,) = [name.removesuffix("::cta") for name in space] or ["generic"]
    if space not in ("generic", "global", "shared"):
        raise Unknown
    place = w.address(address, SIGNED[4 if space == "shared" else 8])
    value = w.value(value, SIGNED[8 if kind == "b64" else 4])
    given = repr(space), place, repr(field), at, value
    w.lines.append(w.call(map_bytes.replace, instruction, *given))
