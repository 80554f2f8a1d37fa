"""tcgen05: tensor memory, and products of matrices for one SM or two. Control of launches."""

from __future__ import annotations

from ptxsim import blackwell
from ptxsim.instructions.copies import TOLD
from ptxsim.instructions.memory import shared_address
from ptxsim.ptx import BOOL, SIGNED, UNSIGNED, Address, Immediate, Unknown, Vector, items
from ptxsim.tensor_cores import tensor_memory
from ptxsim.threads import launch_control

GROUPS = {"cta_group::1": 1, "cta_group::2": 2}
COLLECTOR = "collector::a::"  # what the hardware may keep of A: no result depends on it
SCALE_VECTORS = {
    "scale_vec::1X": {"mxf8f6f4": 1}, "scale_vec::2X": {"mxf4": 2, "mxf4nvf4": 2},
    "scale_vec::4X": {"mxf4nvf4": 4}, "block16": {"mxf4nvf4": 4},
    "block32": {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 2},
}  # fmt: skip
DEFAULT_SCALES = {"mxf8f6f4": 1, "mxf4": 2}
TIMES = {f"x{1 << i}": 1 << i for i in range(8)}
ARRIVES = "mbarrier::arrive::one"


def op_tcgen05(w, instruction, *operands):
    what, *parts = instruction.parts[1:]
    if what.startswith(("wait::", "fence::")):
        name, _, how = what.partition("::")
        if parts != (["sync", "aligned"] if name == "wait" else []) or operands:
            raise Unknown
        function = tensor_memory.wait if name == "wait" else tensor_memory.fence
        w.lines.append(w.call(function, instruction, repr(how)))
        return
    known = {
        "alloc": _allocate, "dealloc": _free, "relinquish_alloc_permit": _relinquish, "ld": _load,
        "st": _store, "mma": _multiply, "commit": _commit, "cp": _copy, "shift": _shift,
    }  # fmt: skip
    known[what](w, instruction, parts, *operands)


def _group(parts) -> tuple[int, list[str]]:
    """(the SMs of an instruction, its other parts)"""
    (group,) = GROUPS.keys() & set(parts)
    return GROUPS[group], [part for part in parts if part != group]


# --- allocation -----------------------------------------------------------------------------------


def _allocate(w, instruction, parts, target, columns):
    ctas, rest = _group(parts)
    if set(rest) - {"shared::cta"} != {"sync", "aligned", "b32"}:
        raise Unknown
    place = shared_address(w, target, "shared::cta" in rest)
    w.tell(instruction, "tensor_memory.allocate", ctas, place, w.value(columns, SIGNED[4]))


def _free(w, instruction, parts, address, columns):
    _, rest = _group(parts)
    if set(rest) != {"sync", "aligned", "b32"}:
        raise Unknown
    w.tell(instruction, "tensor_memory.free", *w.values((address, columns), SIGNED[4]))


def _relinquish(w, instruction, parts):
    _group(parts)
    w.tell(instruction, "tensor_memory.relinquish")


# --- loads and stores -----------------------------------------------------------------------------


def _access(parts, registers, offset) -> tensor_memory.Access:
    """Of sync.aligned.SHAPE.xN{.pack::16b}.b32"""
    sync, aligned, shape, times, *packed, kind = parts
    shapes = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"}
    if (sync, aligned, kind) != ("sync", "aligned", "b32") or shape not in shapes:
        raise Unknown
    if packed not in ([], ["pack::16b"], ["unpack::16b"]):
        raise Unknown
    if bool(offset) != (shape == "16x32bx2"):
        raise Unknown
    at = int(offset[0].value) if offset else 0
    access = tensor_memory.Access(shape, TIMES[times], bool(packed), at)
    if access.registers != len(registers) or access.registers > 128:
        raise Unknown
    return access


def _load(w, instruction, parts, target, address, *offset):
    access = _access(parts, items(target), offset)
    text = w.call(access.load, instruction, w.address(address, SIGNED[4]))
    w.assign_all(target, text, SIGNED[4], instruction)


def _store(w, instruction, parts, address, *rest):
    *offset, source = rest
    access = _access(parts, items(source), offset)
    given = w.address(address, SIGNED[4]), w.tuple(items(source), SIGNED[4])
    w.lines.append(w.call(access.store, instruction, *given))


# --- products -------------------------------------------------------------------------------------


def _multiply(w, instruction, parts, d, a, b, word, *rest):
    """tcgen05.mma.GROUP.KIND{.block_scale{.VECTOR}}{.collector}"""
    ctas, parts = _group(parts)
    kind, *flags = [part for part in parts if not part.startswith(COLLECTOR)]
    kind = kind.removeprefix("kind::")
    if kind not in blackwell.TYPES:
        raise Unknown
    scales, count = "()", 0
    if kind in blackwell.SCALED:
        if flags[:1] != ["block_scale"]:
            raise Unknown
        count = SCALE_VECTORS[flags[1]][kind] if flags[1:] else DEFAULT_SCALES[kind]
        addresses, rest = [w.address(each, SIGNED[4]) for each in rest[:2]], rest[2:]
        scales = f"({', '.join(addresses)})"
    elif flags:
        raise Unknown
    disabled = "()"
    if rest and isinstance(rest[0], Vector):
        if len(rest[0].items) != 4 * ctas or count:
            raise Unknown
        disabled, rest = w.tuple(rest[0].items, SIGNED[4]), rest[1:]
    keep, *shift = rest
    if shift and (kind not in ("f16", "tf32") or not isinstance(shift[0], Immediate)):
        raise Unknown
    shared = not isinstance(a, Address)
    a = w.value(a, SIGNED[8]) if shared else w.address(a, SIGNED[4])
    by = int(shift[0].value) if shift else 0
    product = tensor_memory.Product(kind, ctas, count, shared, by)
    given = w.value(b, SIGNED[8]), w.value(word, SIGNED[4]), w.value(keep, BOOL)
    given = w.address(d, SIGNED[4]), a, *given, disabled, scales
    w.lines.append(w.call(product.run, instruction, *given))


def _commit(w, instruction, parts, mbarrier, *ranks):
    _, rest = _group(parts)
    multicast = "multicast::cluster" in rest
    if set(rest) - {ARRIVES, "shared::cluster", "multicast::cluster", "b64"} or ARRIVES not in rest:
        raise Unknown
    if len(ranks) != multicast:
        raise Unknown
    place = shared_address(w, mbarrier, "shared::cluster" in rest)
    named = w.value(ranks[0], UNSIGNED[2]) if multicast else "None"
    w.lines.append(w.call(tensor_memory.commit, instruction, place, named))


# --- copies ---------------------------------------------------------------------------------------


def _copy(w, instruction, parts, address, descriptor):
    ctas, rest = _group(parts)
    shape = ".".join(rest)
    if shape not in tensor_memory.COPIES:
        raise Unknown
    given = repr(shape), ctas, w.address(address, SIGNED[4]), w.value(descriptor, SIGNED[8])
    w.lines.append(w.call(tensor_memory.copy, instruction, *given))


def _shift(w, instruction, parts, address):
    ctas, rest = _group(parts)
    if rest != ["down"]:
        raise Unknown
    given = ctas, w.address(address, SIGNED[4])
    w.lines.append(w.call(tensor_memory.shift_down, instruction, *given))


# --- clusters that have not begun -----------------------------------------------------------------

TO_ALL = "multicast::cluster::all"
FIRST_BLOCK = "get_first_ctaid"


def op_clusterlaunchcontrol(w, instruction, *operands):
    what, *parts = instruction.parts[1:]
    if what == "try_cancel":
        address, mbarrier = operands
        space = "shared::cta" in parts
        if set(parts) - {"async", "shared::cta", TOLD, TO_ALL, "b128"}:
            raise Unknown
        places = (shared_address(w, each, space) for each in (address, mbarrier))
        w.lines.append(w.call(launch_control.try_cancel, instruction, *places, TO_ALL in parts))
        return
    target, answer = operands
    low, high = w.values(items(answer), SIGNED[8])
    if what != "query_cancel":
        raise Unknown
    if parts == ["is_canceled", "pred", "b128"]:
        w.apply(instruction, target, BOOL, launch_control.is_canceled, high)
        return
    how, *vector = parts[:-2]
    axes = range(3) if vector == ["v4"] else ["xyz".index(how.removeprefix(FIRST_BLOCK + "::"))]
    if how.partition("::")[0] != FIRST_BLOCK or vector not in ([], ["v4"]):
        raise Unknown
    for register, axis in zip(items(target), axes, strict=False):
        given = low, high, axis
        w.apply(instruction, register, SIGNED[4], launch_control.first_block, *given)
