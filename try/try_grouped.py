"""24_grouped.cu in the simulator: PYTHONPATH=.:ptxsim/src python try/try_grouped.py [first [last]] of the cases below.

`mistakes`: instead, with mistakes planted, each of which must be found.
"""
import itertools, sys, tempfile, time
from pathlib import Path
import numpy as np
import ptxsim
from gemmlab.folders import INCLUDE_FOLDERS, KERNELS
D = dict(BM=64, BN=128, STAGES=3, GROUP=16, MIN_BLOCKS=1, SEND_LATER=1, DTYPE=0, OUT32=0, OP_B=0, MASKED=0)
def up(a, b): return -(-a // b)
def to_bits(x):                                  # bfloat16, to nearest even
    u = x.astype("f4").view("u4"); return ((u + 0x7fff + (u >> 16 & 1)) >> 16).astype("u2")
def shared_bytes(s, count):
    pieces = s["BN"] // (32 if s["OUT32"] else 64)
    buffers = 2 if pieces % 2 == 0 and s["BM"] <= 128 else 1
    return s["STAGES"] * (s["BM"] + s["BN"]) * 128 + s["BM"] // 64 * buffers * 8192 + 16 * s["STAGES"] + 4 * (count + 1)
failed = 0
def run(sizes, n, k, blocks=4, capacity=0, spare=0, folder=None, quiet=False, flat_b=False, **s):
    """True if it was right: within rounding of float64, nothing else written, and no findings."""
    global failed
    s = {**D, **s, "MASKED": int(capacity > 0)}; count = len(sizes); used = np.minimum(sizes, capacity) if capacity else np.array(sizes)
    first = np.arange(count) * capacity if capacity else np.cumsum([0, *sizes])[:-1]
    total = count * capacity if capacity else int(sum(sizes)) + spare
    r = np.random.default_rng(total + n + k + blocks)
    if s["DTYPE"]: raw = to_bits; f = lambda u: (u.astype("u4") << 16).view("f4").astype("f8"); nan = 0x7fc0
    else: raw = lambda x: x.astype("f2").view("u2"); f = lambda u: u.view("f2").astype("f8"); nan = 0x7e00
    A, B = raw(r.uniform(-1, 1, (total, k))), raw(r.uniform(-1, 1, (count, k, n)))
    belongs = np.zeros(total, bool)
    for p in range(count): belongs[first[p]:first[p] + used[p]] = True
    A[~belongs] = nan                            # of no product: must not matter
    B[used == 0] = nan
    if capacity: rows = np.array(sizes, "i4")
    else: rows = np.array([*first, total - spare], "i4")
    box_b = (1, s["BN"] if s["OP_B"] else 64, 64)
    stored_b = np.ascontiguousarray(B.swapaxes(1, 2)) if s["OP_B"] else B
    if flat_b: stored_b, box_b = stored_b.reshape(-1, stored_b.shape[2]), box_b[1:]       # for a mistake
    mark = np.float32(77.5) if s["OUT32"] else np.uint16(0x1234)
    C = np.full((total, n), mark)
    element = "bfloat16" if s["DTYPE"] else "float16"
    typed = lambda X: X if s["DTYPE"] or X.dtype == "f4" else X.view("f2")
    tmap = lambda X, box: ptxsim.TensorMap(typed(X), box, swizzle="128B", **({} if X.dtype == "f4" else dict(element=element)))
    folders = ([folder] if folder else []) + [str(p) for p in INCLUDE_FOLDERS]
    file = Path(folder or KERNELS) / "24_grouped.cu"
    t = time.time()
    got = ptxsim.launch(file if file.exists() else KERNELS / "24_grouped.cu", "grouped", blocks, 2 * s["BM"] + 128,
        [tmap(A, (s["BM"], 64)), tmap(stored_b, box_b), tmap(C, (64, 32 if s["OUT32"] else 64)), C, rows, count, capacity, n, k],
        options=tuple(f"-D{a}={b}" for a, b in s.items()) + tuple(f"-I{p}" for p in folders), shared_bytes=shared_bytes(s, count), check=True, limit_s=None)
    worst, nans = 0.0, 0
    for p in range(count):
        here = slice(first[p], first[p] + used[p])
        if not used[p]: continue
        want = f(A[here]) @ f(B[p]); g = C[here].astype("f8") if s["OUT32"] else f(np.ascontiguousarray(C[here]))
        nans += int(np.isnan(g).sum()); worst = max(worst, float(np.nan_to_num(abs(g - want)).max() / (abs(f(A[here])) @ abs(f(B[p]))).max()))
    touched = int((C[~belongs] != mark).sum())
    good = not nans and worst < (1e-5 if s["OUT32"] else 4e-3 if s["DTYPE"] else 1e-3) and not touched and not len(got.findings)
    if not quiet: failed += not good
    print("ok " if good else "BAD", list(map(int, sizes)) if count < 20 else f"{count} products", (n, k), f"capacity {capacity}" if capacity else "", f"spare {spare}" if spare else "", f"blocks {blocks}",
          {a: b for a, b in s.items() if D[a] != b}, f"error {worst:.1e} nan {nans} touched {touched} findings {len(got.findings)}", *[str(x)[:200] for x in got.findings[:1]], f"{time.time() - t:.1f}s", flush=True)
    return good
many = np.random.default_rng(5).integers(0, 4, 70)
CASES = [
    (([64], 128, 64), {}),                                             # a whole tile
    (([5], 128, 64), {}),                                              # one with few rows
    (([70, 3, 64, 1], 136, 72), {}),                                   # ragged in M, N and K
    (([0, 70, 0, 0, 40, 0], 128, 72), {}),                             # empty ones, first, last and side by side
    (([0, 0, 200, 0], 264, 136), dict(blocks=3)),                      # one with all rows
    (([0, 0, 0], 128, 64), dict(spare=8)),                             # no rows at all
    (([40, 0, 70], 136, 72), dict(spare=100)),                         # A and C have room for more
    (([1, 0, 1, 1], 8, 8), {}),
    (([70, 3, 130, 64], 136, 200), dict(DTYPE=1, blocks=3)),
    (([70, 3, 130, 64], 136, 200), dict(blocks=20)),                   # more blocks than tiles
    (([70, 3, 130, 64], 264, 200), dict(BN=256, blocks=2)),
    (([130, 3, 0, 200], 200, 136), dict(BM=128, BN=128, blocks=3)),
    (([130, 3, 0, 200], 264, 136), dict(BM=128, BN=256, blocks=2, DTYPE=1)),
    (([60, 70, 130], 136, 704), dict(blocks=2, SEND_LATER=0)),
    (([60, 70, 130], 136, 704), dict(blocks=2, STAGES=2)),
    (([60, 70, 130], 136, 136), dict(blocks=2, MIN_BLOCKS=2, DTYPE=1)),
    (([60, 70, 130], 136, 136), dict(blocks=2, OP_B=1)),
    (([60, 70, 130], 136, 136), dict(blocks=2, OUT32=1)),
    (([300, 70], 392, 72), dict(blocks=3, GROUP=2)),
    ((many, 72, 72), dict(blocks=5)),                                  # more products than a warp's lanes
    (([64, 0, 33, 90], 136, 72), dict(capacity=90)),                   # masked: 90 is no multiple of 64
    (([128, 0, 1, 64], 136, 136), dict(capacity=128, BM=128, blocks=3)),
    (([128, 300, 1, 64], 136, 136), dict(capacity=128, BM=128, BN=256, blocks=2, DTYPE=1)),   # a count above the capacity
]
# (what, file, from, to, case)
MISTAKES = [
    ("a tile's last rows by TMA", "store_rows.cuh", "rows >= WARPGROUP_ROWS", "rows > 0", (([64, 0, 33, 90], 136, 72), dict(capacity=90))),
    ("the same, rows below one another", "store_rows.cuh", "rows >= WARPGROUP_ROWS", "rows > 0", (([10, 64, 64], 128, 264), dict(blocks=2))),
    ("no wait for a full stage", "24_grouped.cu", "mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);", "", (([70, 3, 64, 1], 136, 72), {})),
    ("no wait for an empty stage", "24_grouped.cu", "mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);", "", (([70, 3, 64, 1], 136, 704), dict(blocks=2))),
    ("a buffer filled while TMA reads it", "store_rows.cuh", "else tma_store_wait_read<0>();", "else tma_store_wait_read<STORE_BUFFERS - 1>();", (([64, 10, 64, 10], 256, 136), dict(blocks=1))),
    ("no wait for the buffer at all", "store_rows.cuh", "if (whole) tma_store_wait_read<STORE_BUFFERS - 1>();", "if (whole) {}", (([128], 256, 136), dict(blocks=1))),
    ("B's boxes reach into the next B", "tma_3d.cuh", "asm volatile(\"cp.async.bulk.tensor.3d", 'row += matrix * 72; asm volatile("cp.async.bulk.tensor.2d', (([40, 0, 70], 136, 72), dict(flat_b=True))),
    ("tiles read before they are numbered", "24_grouped.cu", "    __syncthreads();                             // all know", "    // all know", (([70, 3, 64, 1], 136, 72), {})),
]
def mistakes():
    missed = 0
    for what, name, old, new, (shape, how) in MISTAKES:
        with tempfile.TemporaryDirectory() as folder:
            for each in [KERNELS / "24_grouped.cu", *sorted((KERNELS / "24_grouped").glob("*.cuh"))]:
                text = each.read_text()
                if each.name == name: assert text.count(old) == 1, (what, text.count(old)); text = text.replace(old, new)
                if "2d" in new: text = text.replace("{%2, %3, %4}", "{%2, %3}")
                (Path(folder) / each.name).write_text(text)
            print(what, end=": ", flush=True)
            try: found = not run(*shape, folder=folder, quiet=True, **how)
            except Exception as error: found = True; print("stopped by", repr(error)[:200], flush=True)
        missed += not found
        if not found: print("   MISSED", flush=True)
    print("missed", missed)
if __name__ == "__main__":
    if sys.argv[1:] == ["mistakes"]: mistakes()
    else:
        a = int(sys.argv[1]) if len(sys.argv) > 1 else 0; b = int(sys.argv[2]) if len(sys.argv) > 2 else len(CASES)
        for shape, how in CASES[a:b]: run(*shape, **how)
        print("failed", failed)
