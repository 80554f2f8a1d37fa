"""Record what instructions of a whole warp give on an NVIDIA GPU.

    python ptxsim/hardware/record_warps.py OUTDIR

writes OUTDIR/warps.npz. Each kernel runs TRIALS warps; lanes take part by a random mask, and those
that do not leave 0. Needs CuPy and a GPU of compute capability 9.0 or later.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

TRIALS = 64
KERNEL = """extern "C" __global__ void %(name)s(const unsigned* value, const unsigned* by,
        const unsigned* clamp, const unsigned* members, unsigned* out, unsigned* truth) {
    const unsigned lane = threadIdx.x, i = blockIdx.x * 32 + lane, mask = members[blockIdx.x];
    if (!(mask >> lane & 1)) return;
    unsigned d = 0, p = 0;
    asm volatile("{ .reg .pred p, q; .reg .b32 t; setp.ne.u32 q, %%3, 0; "
                 "%(text)s }"
                 : "+r"(d), "+r"(p) : "r"(mask), "r"(value[i]), "r"(by[i]), "r"(clamp[i]));
    out[i] = d;
    truth[i] = p;
}"""
PREDICATE = "selp.u32 %1, 1, 0, p;"
# Kernel -> its instruction. %0: the result; %1: its predicate; %2: the mask; %3: the value; %4 and
# %5: the lane or distance, and the clamp, of a shuffle.
TEXTS = {
    **{f"shfl_{mode}": f"shfl.sync.{mode}.b32 %0|p, %3, %4, %5, %2; {PREDICATE}"
       for mode in ("up", "down", "bfly", "idx")},
    **{f"vote_{how}": f"vote.sync.{how}.pred p, q, %2; {PREDICATE}"
       for how in ("all", "any", "uni")},
    "vote_ballot": "vote.sync.ballot.b32 %0, q, %2;",
    "match_any": "match.any.sync.b32 %0, %3, %2;",
    "match_all": f"match.all.sync.b32 %0|p, %3, %2; {PREDICATE}",
    **{f"redux_{how}_{kind}": f"redux.sync.{how}.{kind} %0, %3, %2;"
       for kind, hows in (("u32", ("add", "min", "max")), ("s32", ("add", "min", "max")),
                          ("b32", ("and", "or", "xor"))) for how in hows},
    "elect": f"elect.sync %0|p, %2; {PREDICATE}",
    "activemask": "activemask.b32 %0;",
}  # fmt: skip
SOURCE = "\n".join(KERNEL % {"name": name, "text": text} for name, text in TEXTS.items())


def inputs() -> dict[str, np.ndarray]:
    """The operands: one row of 32 for each warp, and a mask for each."""
    random = np.random.default_rng(5)
    shape = TRIALS, 32
    few = random.integers(0, 4, shape)
    alike = np.repeat(random.integers(0, 2, (TRIALS, 1)), 32, axis=1)
    values = [random.integers(0, 2**32, shape), few, alike, random.integers(0, 2, shape)]
    value = np.stack([values[i % 4][i] for i in range(TRIALS)]).astype(np.uint32)
    # Every other warp asks for one distance and one width in all its lanes, as kernels do.
    by = np.where(np.arange(TRIALS)[:, None] % 2, random.integers(0, 32, (TRIALS, 1)),
                  random.integers(0, 40, shape))  # fmt: skip
    width = np.where(np.arange(TRIALS)[:, None] % 2, 1 << random.integers(0, 6, (TRIALS, 1)),
                     random.integers(1, 33, shape))  # fmt: skip
    clamp = (32 - width) << 8 | np.where(random.integers(0, 2, shape), 31, 0)
    members = random.integers(1, 2**32, TRIALS)
    members[::3] = 2**32 - 1
    members[1] = 1 << 17
    arrays = {"value": value, "by": by, "clamp": clamp, "members": members}
    return {name: array.astype(np.uint32) for name, array in arrays.items()}


def main(outdir: Path) -> None:
    import cupy

    from record_arithmetic import provenance

    module = cupy.RawModule(code=SOURCE, options=("-std=c++17",))
    arrays = inputs()
    given = [cupy.asarray(arrays[name]) for name in ("value", "by", "clamp", "members")]
    for name in TEXTS:
        out, truth = (cupy.zeros((TRIALS, 32), "u4") for _ in range(2))
        module.get_function(name)((TRIALS,), (32,), (*given, out, truth))
        arrays[f"result {name}"], arrays[f"truth {name}"] = out.get(), truth.get()
    about = {**provenance(cupy), "command": "python ptxsim/hardware/record_warps.py OUTDIR"}
    arrays["about"] = np.array(json.dumps(about))
    np.savez_compressed(outdir / "warps.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
