"""grouped_bench.py [float16|bfloat16] OUT.csv: 24_grouped.cu beside cuBLAS, product by product and grouped, and torch._grouped_mm.

From the repository's root, on a GPU of sm_90:
    PYTHONPATH=.:ptxsim/src:benchmarks LIMIT=500 timeout 580 python3 try/grouped_bench.py bfloat16 $OUT/grouped_bf16.csv
Environment: LIMIT seconds; CASES=2,4 only those (by number); VERBOSE=1 names each kernel before it runs (after a hang); EARLY=0 no
early launch; TORCH=0 and CUBLAS_GROUPED=0 leave these out. All times are of CUDA graphs. bfloat16 is needed for torch's.
"""
import concurrent.futures as cf, csv, ctypes, glob, hashlib, os, subprocess, sys, time
import numpy as np
ROOT = os.environ.get("ROOT") or os.getcwd()
sys.path[:0] = [ROOT, ROOT + "/ptxsim/src", ROOT + "/benchmarks"]
FILE, CUBINS = ROOT + "/kernels/24_grouped.cu", "/tmp/grouped_cubins"
EARLY = os.environ.get("EARLY", "1") == "1"
TILES = [dict(BM=bm, BN=bn, STAGES=st, MIN_BLOCKS=mb, **more) for bm, bn, st, mb, more in (         # all without spills
    (64, 128, 8, 1, {}), (64, 128, 4, 2, {}), (64, 128, 4, 2, dict(SEND_LATER=0)), (64, 256, 5, 1, {}), (64, 256, 5, 1, dict(SEND_LATER=0)),
    (128, 128, 6, 1, {}), (128, 256, 4, 1, {}), (128, 256, 4, 1, dict(SEND_LATER=0)), (128, 256, 4, 1, dict(GROUP=8)), (128, 256, 4, 1, dict(GROUP=32)))]
SM_SHARED, BLOCK_SHARED = 233472, 232448         # bytes; an SM also takes 1024 for each block
SEED = 24
def cases():
    """(name, rows of each product, N, K, capacity or 0)"""
    r = np.random.default_rng(SEED)
    drawn = lambda count, mean: [int(x) for x in r.uniform(0.7, 1.3, count) * mean]
    n, k = 4096, 7168
    return [("4 of 8192", [8192] * 4, n, k, 0), ("4 drawn around 8192", drawn(4, 8192), n, k, 0), ("8 of 4096", [4096] * 8, n, k, 0),
            ("8 drawn around 4096", drawn(8, 4096), n, k, 0), ("128 of 1 to 64", [int(x) for x in r.integers(1, 65, 128)], n, k, 0),
            ("64 masked, 0 to 256 of 256", [int(x) for x in r.integers(0, 257, 64)], n, k, 256),
            ("64 masked, 192 of 256", [192] * 64, n, k, 256),
            ("8, one empty", [4096] * 3 + [0] + [4096] * 4, n, k, 0), ("8, one has all", [0] * 3 + [32768] + [0] * 4, n, k, 0)]
def up(a, b): return -(-a // b)
def shared_bytes(s, count):
    buffers = 2 if s["BN"] // 64 % 2 == 0 and s["BM"] <= 128 else 1
    return s["STAGES"] * (s["BM"] + s["BN"]) * 128 + s["BM"] // 64 * buffers * 8192 + 16 * s["STAGES"] + 4 * (count + 1)
def cubin_path(s):
    text = b"".join(open(p, "rb").read() for p in [FILE, *sorted(glob.glob(ROOT + "/kernels/24_grouped/*"))]) + repr(sorted(s.items())).encode()
    return f"{CUBINS}/{hashlib.sha1(text).hexdigest()[:16]}.cubin"
def build(s):
    out = cubin_path(s)
    if os.path.exists(out): return None
    folders = [ROOT + "/kernels/common", *sorted(p for p in glob.glob(ROOT + "/kernels/[0-9]*") if os.path.isdir(p))]
    r = subprocess.run(["nvcc", "-cubin", "-gencode=arch=compute_90a,code=sm_90a", "-std=c++17", "-Xptxas", "-v", *[f"-D{a}={b}" for a, b in s.items()],
                        *[f"-I{p}" for p in folders], FILE, "-o", f"{out}.{os.getpid()}"], capture_output=True, text=True)
    if r.returncode: return r.stderr[-400:] or "nvcc failed"
    if " 0 bytes spill stores" not in r.stderr: print("SPILLS", s, flush=True)
    os.replace(f"{out}.{os.getpid()}", out)
    return None
def brief(s): return " ".join(f"{a}={b}" for a, b in s.items() if a not in ("DTYPE", "MASKED", "EARLY_LAUNCH"))
def cublas_grouped(lib, cb, A, B, C, used, first):
    """cublasGemmGroupedBatchedEx of all products that have rows, each a group of one; None without it."""
    import cupy
    count = len(used); n, k = B.shape[2], B.shape[1]
    ints = lambda values: (ctypes.c_int * count)(*values)
    floats = lambda value: (ctypes.c_float * count)(*[value] * count)
    at = lambda X, place: cupy.asarray(np.array([X.data.ptr + 2 * place(p) for p in range(count)], np.uint64))
    pointers = at(B, lambda p: int(used[p][0]) * n * k), at(A, lambda p: first[p] * k), at(C, lambda p: first[p] * n)
    given, result, compute = cb.TYPES[lib.dtype]
    address = lambda X: ctypes.c_void_p(X.data.ptr)
    every = (ints([0] * count), ints([0] * count), ints([n] * count), ints([u[1] for u in used]), ints([k] * count), floats(1.0), address(pointers[0]), given,
             ints([n] * count), address(pointers[1]), given, ints([k] * count), floats(0.0), address(pointers[2]), result, ints([n] * count), count,
             ints([1] * count), compute)
    def call(): lib._call("cublasGemmGroupedBatchedEx", lib._handle, *every)
    call.keep = pointers
    return call
def torch_us(call, torch):
    """µs of a call, captured into a graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3): out = call()
    torch.cuda.synchronize(); del out
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): out = call()
    def once():
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record(); graph.replay(); end.record(); end.synchronize()
        return 1e3 * begin.elapsed_time(end)
    once()
    return min(once() for _ in range(5)), out
def main(dtype, path):
    limit, t0 = float(os.environ.get("LIMIT", 500)), time.time()
    verbose = os.environ.get("VERBOSE", "0") == "1"
    picked = cases()
    if os.environ.get("CASES"): picked = [picked[int(i)] for i in os.environ["CASES"].split(",")]
    def settings(s, masked): return {**s, "DTYPE": int(dtype == "bfloat16"), "MASKED": int(masked), **({} if EARLY else {"EARLY_LAUNCH": 0})}
    every = [settings(s, masked) for masked in sorted({c[4] > 0 for c in picked}) for s in TILES]
    for s in every:
        assert shared_bytes(s, 128) <= BLOCK_SHARED and (shared_bytes(s, 128) + 1024) * s["MIN_BLOCKS"] <= SM_SHARED, s
    os.makedirs(CUBINS, exist_ok=True)
    with cf.ThreadPoolExecutor(int(os.environ.get("WORKERS", os.cpu_count() or 8))) as pool:
        bad = {tuple(s.items()): error for s, error in zip(every, pool.map(build, every)) if error}
    for s, error in bad.items(): print("NO", s, error, flush=True)
    print(dtype, len(picked), "cases", len(every), "kernels", f"{time.time() - t0:.0f} s", flush=True)
    import cupy
    import gemmlab.cuda.cublas as cb
    from gemmlab.cuda.driver import PackedLaunch, tensor_map
    from graphs import timed
    torch = None
    if dtype == "bfloat16" and os.environ.get("TORCH", "1") == "1":
        try: import torch
        except ImportError as error: print("no torch:", error, flush=True)
        if torch: print("torch", torch.__version__, "_grouped_mm" if hasattr(torch, "_grouped_mm") else "without _grouped_mm", flush=True)
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    sms, name = properties["multiProcessorCount"], properties["name"].decode()
    print(name, sms, "SMs, cuBLAS", cb.version(), flush=True)
    stream = cupy.cuda.Stream(non_blocking=True)
    def stop_capture():                          # after an error in a capture
        try:
            if stream.is_capturing(): stream.end_capture()
        except Exception as error: print("  capture:", repr(error)[:100], flush=True)
    functions = {}
    def function(s, count):
        key = tuple(s.items())
        if key not in functions:
            f = cupy.RawModule(path=cubin_path(s)).get_function("grouped")
            f.max_dynamic_shared_size_bytes = BLOCK_SHARED
            fit = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(f.kernel.ptr, 2 * s["BM"] + 128, shared_bytes(s, count))
            print("  kernel", brief(s), "masked" if s["MASKED"] else "", "registers", f.num_regs, "local", f.local_size_bytes, "blocks that fit", fit, flush=True)
            functions[key] = f
        return functions[key]
    nan, tolerance = (0x7FC0, 1.6e-2) if dtype == "bfloat16" else (0x7E00, 2e-3)   # two roundings, of sums in two orders
    # tensor_map knows no bfloat16: it is uint16 there, which TMA copies alike; zeros outside are the same bits.
    stored = np.uint16 if dtype == "bfloat16" else np.float16
    def floats(X): return (X.astype(cupy.uint32) << 16).view(cupy.float32) if dtype == "bfloat16" else X.astype(cupy.float32)
    def drawn(random, size):
        X = 2 * random.random(size, dtype=np.float32) - 1
        return (X.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else X.astype(np.float16)
    rows, wrong = [("case", "products", "rows", "n", "k", "capacity", "dtype", "who", "us", "tflops", "gb_per_s", "error")], 0
    for title, sizes, n, k, capacity in picked:
        if time.time() - t0 > limit: print("out of time before", title, flush=True); break
        count = len(sizes); first = [p * capacity for p in range(count)] if capacity else [int(x) for x in np.cumsum([0, *sizes])[:-1]]
        total = count * capacity if capacity else sum(sizes)
        flop, moved = 2.0 * sum(sizes) * n * k, 2.0 * (sum(sizes) * (k + n) + sum(s > 0 for s in sizes) * n * k)
        random = cupy.random.default_rng(1)
        with stream, cb.Cublas(stream, dtype) as lib:
            A, C, want = drawn(random, (total, k)), cupy.empty((total, n), stored), cupy.empty((total, n), stored)
            B = cupy.empty((count, k, n), stored)
            for p in range(count): B[p] = drawn(random, (k, n))
            host_rows = sizes if capacity else [*first, total]
            given_rows = cupy.asarray(np.array(host_rows, np.int32))
            belongs = np.zeros(total, bool)
            for p, size in enumerate(sizes): belongs[first[p]:first[p] + size] = True
            unused = cupy.asarray(np.flatnonzero(~belongs))
            parts = [(A[first[p]:first[p] + size], B[p], want[first[p]:first[p] + size]) for p, size in enumerate(sizes) if size]
            def loop():
                for each in parts: lib.launch_into(*each)
            want.view(np.uint16)[...] = nan; loop(); stream.synchronize()
            top = max(float(abs(floats(part)).max()) for _, _, part in parts)
            def error_of(X):
                worst = 0.0
                for p, size in enumerate(sizes):
                    for at in range(first[p], first[p] + size, 8192):
                        here = slice(at, min(at + 8192, first[p] + size))
                        worst = np.maximum(worst, float(abs(floats(X[here]) - floats(want[here])).max()) / top)     # keeps NaN
                return float(worst)
            def add(who, us, error):
                rows.append((title, count, sum(sizes), n, k, capacity, dtype, who, round(us, 2), round(flop / us / 1e6, 1), round(moved / us / 1e3, 1), f"{error:.1e}"))
                print(f"  {who:44} {us:10.2f} µs {flop / us / 1e6:7.1f} TFLOP/s {moved / us / 1e3:7.1f} GB/s  error {error:.1e}", flush=True)
                return us
            print(f"{title}: {count} products, {sum(sizes)} rows, N {n}, K {k}" + (f", capacity {capacity}" if capacity else ""), flush=True)
            base = add("cuBLAS, one after the other", timed([loop], stream), 0.0)
            if os.environ.get("CUBLAS_GROUPED", "1") == "1":
                try:
                    used = [(p, size) for p, size in enumerate(sizes) if size]
                    call = cublas_grouped(lib, cb, A, B, C, used, [first[p] for p, _ in used])
                    C.view(np.uint16)[...] = nan; call(); stream.synchronize()
                    add("cuBLAS, cublasGemmGroupedBatchedEx", timed([call], stream), error_of(C))
                except Exception as error: print("  no grouped cuBLAS:", repr(error)[:200], flush=True); stop_capture()
            best = None
            for tile in TILES:
                s = settings(tile, capacity > 0)
                if tuple(s.items()) in bad: continue
                if verbose: print("   …", brief(s), flush=True)
                try:
                    maps = [tensor_map(A, (s["BM"], 64), "128B"), tensor_map(B, (1, 64, 64), "128B"), tensor_map(C, (64, 64), "128B")]
                    call = PackedLaunch(function(s, count), (sms * s["MIN_BLOCKS"], 1, 1), (2 * s["BM"] + 128, 1, 1),
                        [*maps, np.uint64(C.data.ptr), np.uint64(given_rows.data.ptr), np.int32(count), np.int32(capacity), np.int32(n), np.int32(k)],
                        shared_bytes(s, count), early=EARLY)
                    C.view(np.uint16)[...] = nan; call(stream.ptr); stream.synchronize()
                    error, before = error_of(C), C.view(np.uint16).copy()
                    us = timed([lambda call=call: call(stream.ptr)], stream); stream.synchronize()
                    alike = bool((C.view(np.uint16) == before).all())
                    touched = int((C.view(np.uint16)[unused] != nan).sum()) if unused.size else 0
                    del before
                except Exception as error: print("  FAIL", brief(s), repr(error)[:300], flush=True); stop_capture(); wrong += 1; continue
                if not error <= tolerance or not alike or touched:
                    wrong += 1; print("  WRONG", brief(s), f"error {error:.1e} same bits {alike} unused rows touched {touched}", flush=True); continue
                add("grouped " + brief(s), us, error)
                if best is None or us < best[0]: best = us, s
            if best: print(f"  best {best[0]:.2f} µs [{brief(best[1])}], cuBLAS / best {base / best[0]:.3f}", flush=True)
            stream.synchronize()
            if torch:
                try:
                    bf = lambda X: torch.from_dlpack(X.view(np.int16)).view(torch.bfloat16)
                    tA, tB = bf(A), bf(B)
                    def checked(who, call):
                        try:
                            us, out = torch_us(call, torch)
                            got = cupy.from_dlpack(out.reshape(-1, n)[:total].contiguous().view(torch.int16)).view(np.uint16)
                            cupy.cuda.Device().synchronize(); add(who, us, error_of(got))
                        except Exception as error: print("  no", who, repr(error)[:200], flush=True)
                    if capacity: checked("torch.bmm, all rows", lambda: torch.bmm(tA.reshape(count, capacity, k), tB))
                    elif hasattr(torch, "_grouped_mm"):
                        offsets = torch.tensor([*first[1:], total], dtype=torch.int32, device="cuda")
                        checked("torch._grouped_mm", lambda: torch._grouped_mm(tA, tB, offs=offsets))
                        other = tB.transpose(1, 2).contiguous().transpose(1, 2)             # B stored N×K
                        checked("torch._grouped_mm, B stored N×K", lambda: torch._grouped_mm(tA, other, offs=offsets))
                        del other
                    del tA, tB; torch.cuda.empty_cache()
                except Exception as error: print("  no torch here:", repr(error)[:200], flush=True)
            del A, B, C, want, parts
        cupy.get_default_memory_pool().free_all_blocks()
        with open(path, "w", newline="") as out: csv.writer(out).writerows(rows)     # after each case, as time may end
    print(name, dtype, "wrong", wrong, f"{time.time() - t0:.0f} s")
    by_case = {}
    for r in rows[1:]: by_case.setdefault(r[0], []).append(r)
    print(f"{'case':30} {'cuBLAS':>9} {'grouped cuBLAS':>15} {'torch':>9} {'ours':>9}  cuBLAS/ours")
    for title, found in by_case.items():
        least = lambda begin: min((r[8] for r in found if r[7].startswith(begin)), default=float("nan"))
        alone, ours = least("cuBLAS, one"), min((r for r in found if r[7].startswith("grouped")), key=lambda r: r[8], default=None)
        if ours: print(f"{title:30} {alone:9.1f} {least('cuBLAS, cublas'):15.1f} {least('torch'):9.1f} {ours[8]:9.1f}  {alone / ours[8]:.3f}  {ours[7]}")
if __name__ == "__main__": main(*sys.argv[1:3])
