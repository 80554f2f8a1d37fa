"""gl.grouped_matmul on a GPU: right, the same again, masked, transposed, and what a call takes on the host."""
import time
import cupy
import numpy as np
import gemmlab as gl

def f(X): return (X.astype(cupy.uint32) << 16).view(cupy.float32) if X.dtype == np.uint16 else X.astype(cupy.float32)
def draw(shape, bf):
    X = cupy.random.uniform(-1, 1, shape, dtype=cupy.float32)
    return (X.view(cupy.uint32) >> 16).astype(cupy.uint16) if bf else X.astype(cupy.float16)
bad = 0
for bf in (False, True):
    for heights, n, k in (([100, 0, 200, 20, 130], 136, 72), ([3000, 5000, 0, 4096], 4096, 1024), ([30] * 700, 512, 256)):
        for transposed in (False, True):
            starts = np.cumsum([0, *heights]).astype(np.int32)
            A, B = draw((int(starts[-1]), k), bf), draw((len(heights), k, n), bf)
            stored = cupy.ascontiguousarray(B.swapaxes(1, 2)) if transposed else B
            for rows in (starts, cupy.asarray(starts)):
                C = gl.grouped_matmul(A, stored, rows, transpose_b=transposed)
                C = gl.grouped_matmul(A, stored, rows, transpose_b=transposed, out=C)
                worst = max(float(abs(f(C[a:b]) - f(A[a:b]) @ f(B[p])).max()) for p, (a, b) in enumerate(zip(starts, starts[1:])) if b > a)
                good = worst < (0.02 if not bf else 0.15) * (k / 72) ** 0.5
                bad += not good
                print("ok " if good else "BAD", "bf16" if bf else "fp16", len(heights), n, k, transposed, type(rows).__module__, f"{worst:.1e}", flush=True)
capacity, used = 256, [0, 1, 100, 256, 64]
A, B = draw((5, capacity, 512), True), draw((5, 512, 1024), True)
out = cupy.full((5, capacity, 1024), 7, np.uint16)
gl.grouped_matmul(A, B, cupy.asarray(np.array(used, np.int32)), masked=True, out=out)
for p, u in enumerate(used):
    good = bool((out[p, u:] == 7).all()) and (not u or float(abs(f(out[p, :u]) - f(A[p, :u]) @ f(B[p])).max()) < 0.4)
    bad += not good
    print("ok " if good else "BAD", "masked", p, u)
host = gl.grouped_matmul(cupy.asnumpy(A).reshape(-1, 512), cupy.asnumpy(B), [0, 0, 1, 300, 700, 1280])
print("host", host.shape, host.dtype)
rows = cupy.asarray(np.array([0, 30, 60, 90, 120, 150], np.int32)); A = draw((150, 512), True); C = gl.grouped_matmul(A, B, rows)
cupy.cuda.Device().synchronize(); t = time.perf_counter()
for _ in range(200): gl.grouped_matmul(A, B, rows, out=C)
t = (time.perf_counter() - t) / 200; cupy.cuda.Device().synchronize()
print(f"a call takes {1e6 * t:.1f} us on the host; wrong {bad}")
