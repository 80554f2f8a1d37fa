"""The forms of cp.async.bulk: stretches and boxes, loads and stores, and groups of stores."""

from __future__ import annotations

from gemmlab.simulator.ptx import Coordinates, Immediate
from gemmlab.simulator.types import SIGNED, Unknown

SHARED = {"shared::cta", "shared::cluster"}
LOAD_HINTS = {"mbarrier::complete_tx::bytes", "L2::cache_hint", "tile"}
STORE_HINTS = {"bulk_group", "L2::cache_hint", "tile"}


def write(w, instruction, operands) -> None:
    """Add the lines for cp.async.bulk.…, whose further parts are one of the following."""
    parts = instruction.parts[3:]
    index, mask = instruction.index, w.mask(instruction)
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
        _box(w, instruction, parts[1:], operands)
    elif parts[0] in SHARED and parts[1] == "global" and not set(parts[2:]) - LOAD_HINTS:
        to, source, size, mbarrier = operands[:4]
        _call(
            w,
            f"bulk.load({index}, {w.address(to, SIGNED[4])}, {w.address(source, SIGNED[8])}, "
            f"{w.value(size, SIGNED[4])}, {w.address(mbarrier, SIGNED[4])}, {mask})",
        )
    elif parts[:2] == ("global", "shared::cta") and not set(parts[2:]) - STORE_HINTS:
        to, source, size = operands[:3]
        _call(
            w,
            f"bulk_stores.store({index}, {w.address(to, SIGNED[8])}, "
            f"{w.address(source, SIGNED[4])}, {w.value(size, SIGNED[4])}, {mask})",
        )
    else:
        raise Unknown


def _box(w, instruction, parts, operands) -> None:
    """cp.async.bulk.tensor.2d.… [to], [map, {x, y}], [mbarrier], or [map, {x, y}], [from]."""
    axes, to, source, *rest = parts
    index, mask = instruction.index, w.mask(instruction)
    if to in SHARED and source == "global" and not set(rest) - LOAD_HINTS:
        place, box, mbarrier = operands[:3]
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
        _call(w, f"bulk_stores.store_box({index}, {where}, {mask})")
    else:
        _call(w, f"bulk.load_box({index}, {where}, {w.address(mbarrier, SIGNED[4])}, {mask})")


def _call(w, text: str) -> None:
    w.lines.append(f"lanes.copies.{text}")
