"""Record what an NVIDIA GPU computes with the product kernels of tests/corpus.py.

    python tests/recorded/record_corpus.py OUTDIR

writes OUTDIR/corpus.json: for every FP32 kernel of the registry the SHA-256 of C at RESULTS. Needs
CuPy and a GPU; gemmlab must be importable. test_simulator_corpus.py holds the simulator against it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import date
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import corpus

from gemmlab.fingerprint import code_hash

# (m, n, k, alpha, beta): square, odd, thin, empty, one large.
RESULTS = (
    (1, 1, 1, 1.0, 0.0),
    (64, 64, 64, 1.0, 0.0),
    (61, 67, 71, 0.5, 2.0),
    (129, 130, 33, -1.5, 0.25),
    (3, 200, 40, 1.0, 0.0),
    (17, 33, 0, 1.0, 0.5),
    (1001, 777, 513, 1.0, 0.0),
)
SEED = 100


def recorded_kernels() -> list[corpus.Product]:
    """Those whose bits must be equal: FP32, with arguments that CuPy passes as they are."""
    return [
        one
        for one in corpus.PRODUCTS
        if one.dtype == "float32" and one.arguments is corpus.plain_arguments
    ]


def key(entry: corpus.Product) -> str:
    return code_hash(entry.path, entry.settings)


def digest(C: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(C).tobytes()).hexdigest()


def on_gpu(entry: corpus.Product, given: corpus.Inputs) -> np.ndarray:
    """C after a launch on the GPU, float32 (m, n), compiled as the simulator compiles."""
    import cupy

    from gemmlab.simulator.nvrtc import COMMON_OPTIONS

    options = (f"-arch={entry.arch}", *COMMON_OPTIONS, *entry.options)
    kernel = cupy.RawModule(code=entry.text, options=options).get_function(entry.entry)
    kernel.max_dynamic_shared_size_bytes = entry.shared_bytes
    A, B, C = (cupy.asarray(x) for x in (given.A, given.B, given.C))
    m, n, k = given.shape
    numbers = (np.int32(m), np.int32(n), np.int32(k))
    factors = (np.float32(given.alpha), np.float32(given.beta))
    args = (A, B, C, *numbers, *factors)
    kernel(entry.grid(m, n), entry.block, args, shared_mem=entry.shared_bytes)
    return cupy.asnumpy(C)


def provenance() -> dict[str, str]:
    import cupy

    from gemmlab.device import require_gpu

    here = require_gpu("Recording")
    return {
        "gpu": here.name,
        "driver": here.driver,
        "nvrtc": ".".join(str(part) for part in cupy.cuda.nvrtc.getVersion()),
        "recorded": date.today().isoformat(),
        "command": "python tests/recorded/record_corpus.py OUTDIR",
    }


def record(out: Path) -> None:
    found = {}
    for entry in recorded_kernels():
        rows = []
        for m, n, k, alpha, beta in RESULTS:
            m, n, k = entry.fitting(m, n, k)
            C = on_gpu(entry, entry.inputs(m, n, k, alpha, beta, SEED))
            rows.append({"m": m, "n": n, "k": k, "alpha": alpha, "beta": beta, "seed": SEED,
                         "sha256": digest(C)})  # fmt: skip
        found[entry.name] = {"code": key(entry), "results": rows}
        print(entry.name, flush=True)
    text = json.dumps({"provenance": provenance(), "kernels": found}, indent=1)
    (out / "corpus.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
