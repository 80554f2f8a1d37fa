"""Record what an NVIDIA GPU does where the PTX documentation leaves it open.

    python ptxsim/hardware/record_undefined.py OUTDIR

writes OUTDIR/undefined.npz. Needs CuPy and a GPU of compute capability 9.0 or later.

Bulk stores for which nobody waits before the block returns: `stores NAME` is how many words were
wrong in each of ROUNDS launches, and `words NAME` how many were to be written. The next block on
the SM writes its own values over the shared memory at once.

Instructions of a warp whose lanes do not all belong to the mask, or of which lanes that belong to
it are missing: `result KIND NAME` and `truth KIND NAME` as in record_warps.py, for each kind of
`masks()`, or `error KIND NAME`, in what way the launch failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from record_copies import HEAD, Boxes, encode
from record_warps import TEXTS, TRIALS

OPTIONS = ("-arch=sm_90a", "-std=c++17", "-lineinfo", "-ftz=true")
LIMIT_S = 20  # of a launch that does not return
PROCESSES = 8
ROUNDS = 12

# --- bulk stores that nobody waits for ------------------------------------------------------------

# A word tells its place and the round. `commit`: whether the stores make a group.
STORES = """
__device__ unsigned word(unsigned at, unsigned round) { return at * 2654435761u + round; }
#define STORE(NAME, WHAT) \\
extern "C" __global__ void NAME(unsigned* out, int words, int pieces, int round, int commit) \\
{ \\
    unsigned* to = out + (size_t)blockIdx.x * words; \\
    for (int i = threadIdx.x; i < words; i += blockDim.x) \\
        memory[i] = word(blockIdx.x * words + i, round); \\
    fence(); \\
    __syncthreads(); \\
    if (threadIdx.x != 0) return; \\
    const int step = words / pieces; \\
    for (int i = 0; i < words; i += step) \\
        asm volatile(WHAT " [%0], [%1], %2;" \\
                     :: "l"(to + i), "r"(place(memory + i)), "r"(4 * step) : "memory"); \\
    if (commit) asm volatile("cp.async.bulk.commit_group;" ::: "memory"); \\
}
STORE(store, "cp.async.bulk.global.shared::cta.bulk_group")
STORE(reduce, "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32")
extern "C" __global__ void store_box(const __grid_constant__ TensorMap map, unsigned* out,
                                     int words, int pieces, int round, int commit)
{
    for (int i = threadIdx.x; i < words; i += blockDim.x)
        memory[i] = word(blockIdx.x * words + i, round);
    fence();
    __syncthreads();
    if (threadIdx.x != 0) return;
    const int step = words / pieces;
    for (int i = 0; i < words; i += step)
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
                     "[%0, {%1, %2}], [%3];" :: "l"(&map), "r"(0),
                     "r"((int)(blockIdx.x * words + i) / 64), "r"(place(memory + i)) : "memory");
    if (commit) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
extern "C" __global__ void wrong(const unsigned* out, size_t words, int round,
                                 unsigned long long* count)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words;
         i += (size_t)gridDim.x * blockDim.x)
        if (out[i] != word((unsigned)i, round)) atomicAdd(count, 1ull);
}
"""


@dataclass(frozen=True)
class Stores:
    """`words` in shared memory of each of `blocks`, stored in `pieces`."""

    entry: str
    blocks: int
    words: int
    pieces: int
    commit: bool


def stores() -> dict[str, Stores]:
    cases = {}
    for entry in ("store", "reduce"):
        for commit in (True, False):
            how = f"{entry}{', committed' if commit else ''}"
            cases |= {
                f"{how}, 16 bytes": Stores(entry, 20000, 4, 1, commit),
                f"{how}, 4 KiB": Stores(entry, 20000, 1024, 1, commit),
                f"{how}, 224 KiB": Stores(entry, 1500, 57344, 1, commit),
                f"{how}, 224 KiB in 1 KiB": Stores(entry, 1500, 57344, 224, commit),
            }
    for commit in (True, False):
        how = f"store_box{', committed' if commit else ''}"
        cases[f"{how}, 32 KiB"] = Stores("store_box", 8000, 8192, 1, commit)
        cases[f"{how}, 192 KiB in 32 KiB"] = Stores("store_box", 1500, 49152, 6, commit)
    return cases


def boxes(case: Stores) -> Boxes:
    """All words as rows of 64, a piece being a box of whole rows."""
    return Boxes(
        "uint32", (case.blocks * case.words // 64, 64), (case.words // case.pieces // 64, 64), ()
    )


def _stored(cupy, module, name: str, case: Stores) -> dict[str, np.ndarray]:
    words = case.blocks * case.words
    out, count = cupy.zeros(words, "u4"), cupy.zeros(ROUNDS, "u8")
    kernel, compare = module.get_function(case.entry), module.get_function("wrong")
    kernel.max_dynamic_shared_size_bytes = 4 * case.words
    for number in range(ROUNDS):
        out[...] = 0
        given = out, np.int32(case.words), np.int32(case.pieces), np.int32(number)
        if case.entry == "store_box":
            code, tensor_map = encode(boxes(case), out.reshape(-1, 64))
            assert not code, f"cuTensorMapEncodeTiled returned {code}"
            given = tensor_map, *given
        kernel((case.blocks,), (128,), (*given, np.int32(case.commit)), shared_mem=4 * case.words)
        compare((528,), (256,), (out, np.uint64(words), np.int32(number), count[number:]))
    return {f"stores {name}": count.get(), f"words {name}": np.array(words)}


# --- masks that do not fit ------------------------------------------------------------------------

WARPS = """extern "C" __global__ void %(name)s(const unsigned* value, const unsigned* by,
        const unsigned* clamp, const unsigned* executing, const unsigned* members, unsigned* out,
        unsigned* truth) {
    const unsigned lane = threadIdx.x, i = blockIdx.x * 32 + lane, mask = members[i];
    if (!(executing[blockIdx.x] >> lane & 1)) { %(others)s return; }
    unsigned d = 0, p = 0;
    asm volatile("{ .reg .pred p, q; .reg .b32 t; setp.ne.u32 q, %%3, 0; "
                 "%(text)s }"
                 : "+r"(d), "+r"(p) : "r"(mask), "r"(value[i]), "r"(by[i]), "r"(clamp[i]));
    out[i] = d;
    truth[i] = p;
}"""
CONSTANT = 0x00FF00FF
# What the lanes do for a while that do not execute it.
BUSY = "for (unsigned k = 0; k < value[i] % 999; ++k) __nanosleep(k); atomicAdd(truth, 0);"
# Kinds of masks at which the GPU may fail are recorded of these.
FEW = ("shfl_idx", "vote_all", "vote_ballot", "match_any", "redux_add_u32", "redux_min_s32",
       "redux_or_b32", "elect")  # fmt: skip
KERNELS = [
    *((name, text, "") for name, text in TEXTS.items()),
    *((f"constant_{name}", TEXTS[name].replace("%2", hex(CONSTANT)), "") for name in FEW),
    *((f"elsewhere_{name}", TEXTS[name], BUSY) for name in FEW),
]
SOURCE = HEAD + STORES + "\n".join(
    WARPS % {"name": name, "text": text, "others": others} for name, text, others in KERNELS
)  # fmt: skip


def operands() -> dict[str, np.ndarray]:
    """value, by and clamp: one row of 32 for each warp."""
    random = np.random.default_rng(6)
    shape = TRIALS, 32
    few = random.integers(0, 4, shape)
    value = np.where(np.arange(TRIALS)[:, None] % 2, random.integers(0, 2**32, shape), few)
    by = np.repeat(random.integers(0, 32, (TRIALS, 1)), 32, axis=1)
    clamp = np.full(shape, 31)
    arrays = {"value": value, "by": by, "clamp": clamp}
    return {name: array.astype(np.uint32) for name, array in arrays.items()}


def masks() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Which lanes execute, one mask for each warp, and the mask that each lane gives.

    "parts": every lane gives the mask of its part of the warp. "exited": the mask names lanes that
    have returned. "others execute": all lanes execute and give one mask, to which not all belong.
    "constant": the same of a mask that stands in the instruction. "some others": as "others
    execute", where some lanes have returned. "any": every lane its own mask. "elsewhere": the mask
    names lanes that are busy with something else.
    """
    random = np.random.default_rng(7)
    every = np.full(TRIALS, 2**32 - 1)
    some = random.integers(1, 2**32, TRIALS)
    executing = some | random.integers(1, 2**32, TRIALS)
    part = random.integers(0, 1 + np.arange(TRIALS)[:, None] % 4 + 1, (TRIALS, 32))
    bits = 1 << np.arange(32)
    parts = np.stack([((part == part[:, [lane]]) * bits).sum(1) for lane in range(32)], axis=1)

    def alike(mask):
        return np.repeat(mask[:, None], 32, axis=1)

    by_kind = {
        "parts": (every, parts),
        "exited": (some, alike(executing)),
        "others execute": (every, alike(some)),
        "constant": (every, alike(np.full(TRIALS, CONSTANT))),
        "some others": (executing, alike(some)),
        "any": (every, random.integers(1, 2**32, (TRIALS, 32)) | bits),
        "elsewhere": (some, alike(every)),
    }
    return {n: (e.astype(np.uint32), m.astype(np.uint32)) for n, (e, m) in by_kind.items()}


def entry(kind: str, name: str) -> str:
    return f"{kind}_{name}" if kind in ("constant", "elsewhere") else name


def of_warps() -> list[tuple[str, str]]:
    """(kind, name) of all that is recorded."""
    return [(kind, name) for kind in masks()
            for name in (TEXTS if kind in ("parts", "exited") else FEW)]  # fmt: skip


def _of_warps(cupy, module, kind: str, name: str) -> dict[str, np.ndarray]:
    given = [cupy.asarray(array) for array in (*operands().values(), *masks()[kind])]
    out, truth = (cupy.zeros((TRIALS, 32), "u4") for _ in range(2))
    try:
        module.get_function(entry(kind, name))((TRIALS,), (32,), (*given, out, truth))
        return {f"result {kind} {name}": out.get(), f"truth {kind} {name}": truth.get()}
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return {f"error {kind} {name}": np.array(str(error).split(":")[0])}


# --- recording ------------------------------------------------------------------------------------


def some(path: Path, names: list[str]) -> None:
    """Record the stores of these names, or a "kind/name" of a warp, in a process of its own."""
    import cupy

    module = cupy.RawModule(code=SOURCE, options=OPTIONS)
    results = {}
    for name in names:
        if "/" in name:
            results |= _of_warps(cupy, module, *name.split("/"))
        else:
            results |= _stored(cupy, module, name, stores()[name])
    np.savez(path, **results)
    os._exit(0)  # a broken context would raise in every destructor


def main(outdir: Path) -> None:
    import cupy

    from record_arithmetic import provenance

    about = {**provenance(cupy), "command": "python ptxsim/hardware/record_undefined.py OUTDIR"}
    cupy.RawModule(code=SOURCE, options=OPTIONS).get_function("store")  # compiled for all
    groups = [[f"{kind}/{name}"] for kind, name in of_warps()] + [list(stores())]
    results = {"about": np.array(json.dumps(about))}

    def record(number: int) -> None:
        path = outdir / f"part{number}.npz"
        command = [sys.executable, __file__, "--some", str(path), json.dumps(groups[number])]
        try:
            subprocess.run(command, timeout=LIMIT_S, check=True)
            results.update(np.load(path))
            path.unlink()
        except subprocess.TimeoutExpired:
            results[f"error {groups[number][0].replace('/', ' ')}"] = np.array("hangs")

    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(record, range(len(groups))))
    np.savez_compressed(outdir / "undefined.npz", **dict(sorted(results.items())))


if __name__ == "__main__":
    if sys.argv[1] == "--some":
        some(Path(sys.argv[2]), json.loads(sys.argv[3]))
    else:
        main(Path(sys.argv[1]))
