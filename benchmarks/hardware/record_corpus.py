"""What an NVIDIA GPU computes with the FP32 kernels of tests/corpus.py: C at RESULTS, as SHA-256.

record_kernels.py records it, test_simulator_corpus.py holds the simulator against it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import corpus
import hardware
import numpy as np
from recording import Record

from gemmlab.kernel.fingerprint import code_hash

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


def codes() -> dict[str, str]:
    """The FP32 kernels: those whose bits must be equal."""
    return {
        product.name: code_hash(product.path, product.settings)
        for product in corpus.PRODUCTS
        if product.dtype == "float32"
    }


def digest(C: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(C).tobytes()).hexdigest()


def on_gpu(entry: corpus.Product, m, n, k, alpha, beta) -> np.ndarray:
    """C of an m×n×k product after a launch on the GPU, float32 (m, n)."""
    given = entry.inputs(m, n, k, alpha, beta, SEED)
    hardware.launch(
        entry.text, entry.entry, entry.grid(m, n), entry.block, entry.arguments(given),
        arch=entry.arch, options=entry.options, shared_bytes=entry.shared_bytes,
    )  # fmt: skip
    return given.C


def recorded(names: list[str]) -> Iterator[tuple[str, dict]]:
    for name in names:
        rows = [
            {"m": m, "n": n, "k": k, "alpha": alpha, "beta": beta, "seed": SEED,
             "sha256": digest(on_gpu(corpus.product(name), m, n, k, alpha, beta))}
            for m, n, k, alpha, beta in RESULTS
        ]  # fmt: skip
        yield name, {"results": rows}


RECORD = Record("corpus.json", codes, recorded)
