"""Record what an NVIDIA GPU does where the PTX documentation leaves it open.

    python tests/recorded/record_undefined.py OUTDIR

writes OUTDIR/undefined.npz. Needs CuPy and a GPU of compute capability 9.0 or later.

Bulk stores for which nobody waits before the block returns: `stores NAME` is how many words were
wrong in each of ROUNDS launches, and `words NAME` how many were to be written. The next block on
the SM writes its own values over the shared memory at once.

Warp instructions of lanes that do not all belong to the mask: `result MASKS NAME` and `truth MASKS
NAME` as in record_warps.py, for each kind of `masks()`; a kind that the GPU does not return from
is left out.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from record_copies import HEAD
from record_warps import TEXTS, TRIALS
from recording import in_processes

OPTIONS = ("-arch=sm_90a", "-std=c++17", "-lineinfo", "-ftz=true")
LIMIT_S = 30
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
    found = {}
    for entry in ("store", "reduce"):
        for commit in (True, False):
            how = f"{entry}{', committed' if commit else ''}"
            found |= {
                f"{how}, 16 bytes": Stores(entry, 20000, 4, 1, commit),
                f"{how}, 4 KiB": Stores(entry, 20000, 1024, 1, commit),
                f"{how}, 224 KiB": Stores(entry, 1500, 57344, 1, commit),
                f"{how}, 224 KiB in 1 KiB": Stores(entry, 1500, 57344, 224, commit),
            }
    return found


def _stored(cupy, module, name: str, case: Stores) -> dict[str, np.ndarray]:
    words = case.blocks * case.words
    out, count = cupy.zeros(words, "u4"), cupy.zeros(ROUNDS, "u8")
    kernel, compare = module.get_function(case.entry), module.get_function("wrong")
    kernel.max_dynamic_shared_size_bytes = 4 * case.words
    for number in range(ROUNDS):
        out[...] = 0
        given = out, np.int32(case.words), np.int32(case.pieces), np.int32(number)
        kernel((case.blocks,), (128,), (*given, np.int32(case.commit)), shared_mem=4 * case.words)
        compare((528,), (256,), (out, np.uint64(words), np.int32(number), count[number:]))
    return {f"stores {name}": count.get(), f"words {name}": np.array(words)}


# --- masks that not all lanes belong to -----------------------------------------------------------

WARPS = """extern "C" __global__ void %(name)s(const unsigned* value, const unsigned* by,
        const unsigned* clamp, const unsigned* executing, const unsigned* members, unsigned* out,
        unsigned* truth) {
    const unsigned lane = threadIdx.x, i = blockIdx.x * 32 + lane, mask = members[i];
    if (!(executing[blockIdx.x] >> lane & 1)) return;
    unsigned d = 0, p = 0;
    asm volatile("{ .reg .pred p, q; .reg .b32 t; setp.ne.u32 q, %%3, 0; "
                 "%(text)s }"
                 : "+r"(d), "+r"(p) : "r"(mask), "r"(value[i]), "r"(by[i]), "r"(clamp[i]));
    out[i] = d;
    truth[i] = p;
}"""
SOURCE = HEAD + STORES + "\n".join(WARPS % {"name": n, "text": t} for n, t in TEXTS.items())


def operands() -> dict[str, np.ndarray]:
    """value, by and clamp: one row of 32 for each warp."""
    random = np.random.default_rng(6)
    shape = TRIALS, 32
    few = random.integers(0, 4, shape)
    value = np.where(np.arange(TRIALS)[:, None] % 2, random.integers(0, 2**32, shape), few)
    by = np.repeat(random.integers(0, 32, (TRIALS, 1)), 32, axis=1)
    clamp = np.full(shape, 31)
    found = {"value": value, "by": by, "clamp": clamp}
    return {name: array.astype(np.uint32) for name, array in found.items()}


def masks() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Which lanes execute, one mask for each warp, and the mask that each lane gives.

    "parts": every lane gives the mask of its part of the warp. "exited": the mask names lanes that
    have returned. "others execute": all lanes execute and give one mask, to which not all belong.
    "some others": the same of lanes some of which have returned. "any": every lane its own mask.
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

    found = {
        "parts": (every, parts),
        "exited": (some, alike(executing)),
        "others execute": (every, alike(some)),
        "some others": (executing, alike(some)),
        "any": (every, random.integers(1, 2**32, (TRIALS, 32)) | bits),
    }
    return {n: (e.astype(np.uint32), m.astype(np.uint32)) for n, (e, m) in found.items()}


def _of_warps(cupy, module, name: str, kind: str, case: str) -> dict[str, np.ndarray]:
    given = [cupy.asarray(array) for array in (*operands().values(), *masks()[kind])]
    out, truth = (cupy.zeros((TRIALS, 32), "u4") for _ in range(2))
    module.get_function(name)((TRIALS,), (32,), (*given, out, truth))
    return {f"result {case}": out.get(), f"truth {case}": truth.get()}


def _kind(case: str) -> str:
    """What is left out where this case does not end: all of its masks, or the case alone."""
    kinds = (f"result {kind} " for kind in masks())
    return next((kind for kind in kinds if case.startswith(kind)), case)


# --- recording ------------------------------------------------------------------------------------


def some(path: Path, without: set[str]) -> None:
    """Record what `path` does not have yet; it is whole after each case."""
    import cupy
    from record_arithmetic import provenance

    module = cupy.RawModule(code=SOURCE, options=OPTIONS)
    found = dict(np.load(path)) if path.exists() else {}
    about = {**provenance(cupy), "command": "python tests/recorded/record_undefined.py OUTDIR"}
    found["about"] = np.array(json.dumps(about))

    def keep(name, record):
        if name in found or any(name.startswith(_kind(one)) for one in without):
            return
        print(name, flush=True)
        found.update(record())
        np.savez_compressed(path.with_suffix(".tmp.npz"), **found)
        path.with_suffix(".tmp.npz").replace(path)

    for kind in masks():
        for name in TEXTS:
            case = f"{kind} {name}"
            keep(f"result {case}", partial(_of_warps, cupy, module, name, kind, case))
    for name, case in stores().items():
        keep(f"stores {name}", partial(_stored, cupy, module, name, case))
    os._exit(0)  # a kernel that failed would raise in every destructor


def main(outdir: Path) -> None:
    in_processes(__file__, outdir / "undefined.npz", LIMIT_S)


if __name__ == "__main__":
    if sys.argv[1] == "--some":
        some(Path(sys.argv[2]), set(json.loads(sys.argv[3])))
    else:
        main(Path(sys.argv[1]))
