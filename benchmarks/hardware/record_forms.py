"""What an NVIDIA GPU computes and counts with each form of 15_mma_sync.

Each type of its elements, C of 32 bits, and the epilogues: C at RESULTS, as SHA-256, and what
Nsight Compute counts at COUNTED. record_kernels.py records it, test_mma_sync.py holds the simulator
against it. Run as a program, it launches the forms that are named, each once at each shape of
COUNTED; this is what runs under ncu.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.extend(
    str(Path(__file__).resolve().parents[2] / folder)
    for folder in (".", "tests", "ptxsim/tests", "ptxsim/hardware")
)
from recording import Record

from gemmlab import ladder
from gemmlab.kernel.fingerprint import code_hash
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.probes import MMA_TYPES as TYPES
from gemmlab.lessons.mma_sync.rung import RUNG as MMA_SYNC
from gemmlab.measure.profiler import METRICS, SEED, TENSOR_METRICS, ncu_version, profiled
from gemmlab.records.runs import result_digest

TILES = {"BM": 64, "BN": 128, "WM": 32, "WN": 32}
DEEP = {4: 32, 2: 64, 1: 128}  # BK, by the bytes of an element
FORMS = (
    *({"DTYPE": number} for number in range(len(TYPES))),
    *({"DTYPE": number, "OUT32": 1} for number in (0, 1)),
    *({"DTYPE": 0, "BIAS": 1, "ACTIVATION": number} for number in range(4)),
    *({"DTYPE": 1, "BIAS": 1, "ACTIVATION": number} for number in (1, 2)),
)
# (m, n, k, alpha, beta): whole tiles, edges, rows off 16 bytes, nothing to multiply.
RESULTS = (
    (128, 256, 256, 1.0, 0.0),
    (130, 150, 170, 0.5, 2.0),
    (65, 144, 48, -1.5, 0.0),
    (61, 67, 71, 1.0, 0.0),
    (17, 33, 0, 1.0, 0.5),
)
COUNTED = ((128, 256, 256), (130, 150, 170))
PERCENT = "pct_of_peak"  # what no simulator counts


def kernel(name: str) -> Kernel:
    return Kernel(MMA_SYNC, ladder.read_settings(name), None, MMA_SYNC.path)


def codes() -> dict[str, str]:
    hashes = {}
    for form in FORMS:
        deep = {"BK": DEEP[TYPES[form["DTYPE"]].a.bytes]}
        settings = ladder.settings_for(MMA_SYNC, TILES | deep | form)
        hashes[ladder.written(settings)] = code_hash(MMA_SYNC.path, settings)
    return hashes


def recorded(names: list[str]) -> Iterator[tuple[str, dict]]:
    if not names:
        return
    wanted = [metric for metric in (*METRICS, *TENSOR_METRICS) if PERCENT not in metric]
    entry = MMA_SYNC.entry(MMA_SYNC.defaults)
    count = len(names) * len(COUNTED)
    counted = iter(profiled([__file__, *names], entry, count, wanted, MMA_SYNC.name))
    for name in names:
        form = kernel(name)
        yield name, {
            "results": [
                {"m": m, "n": n, "k": k, "alpha": alpha, "beta": beta, "seed": SEED,
                 "sha256": result_digest(form, m, n, k, alpha, beta, SEED)}
                for m, n, k, alpha, beta in RESULTS
            ],
            "counters": [
                {"m": m, "n": n, "k": k, "metrics": next(counted)} for m, n, k in COUNTED
            ],
        }  # fmt: skip


RECORD = Record("forms.json", codes, recorded, lambda: {"ncu": ncu_version()})

if __name__ == "__main__":
    for name in sys.argv[1:]:
        form = kernel(name)
        for shape in COUNTED:
            placed = form.operands(form.problem(*shape), SEED).changed(form.to_device)
            form.launch(placed, 1.0, 0.0)
            form.to_host(placed.C)  # waits
