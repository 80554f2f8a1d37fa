"""Record what Nsight Compute counts for the product kernels of tests/corpus.py on an NVIDIA GPU.

    python tests/recorded/record_counters.py OUTDIR

writes OUTDIR/counters.json: for every FP32 kernel of the registry the metrics METRICS at SHAPES,
one launch each. Needs CuPy, a GPU and ncu; gemmlab must be importable. test_simulator_counted.py
holds the simulator against it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import record_corpus

from gemmlab.profiler import find_ncu, ncu_version, parse_csv

SHAPES = ((128, 128, 64, 1.0, 0.0), (129, 97, 65, 1.0, 0.0))
METRICS = (
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "smsp__inst_executed_op_ldsm.sum",
    "smsp__inst_executed_op_ldgsts.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
)
SECONDS = 400


def launches():
    return [(entry, shape) for entry in record_corpus.recorded_kernels() for shape in SHAPES]


def launch_all() -> None:
    """What runs under ncu: each kernel once at each shape."""
    for entry, (m, n, k, alpha, beta) in launches():
        given = entry.inputs(*entry.fitting(m, n, k), alpha, beta, record_corpus.SEED)
        record_corpus.on_gpu(entry, given)


def record(out: Path) -> None:
    names = "|".join(sorted({entry.entry for entry, _ in launches()}))
    command = [
        find_ncu(), "--clock-control", "none", "--csv", "--page", "details",
        "--print-units", "base", "--kernel-name", f"regex:^({names})$",
        "--metrics", ",".join(METRICS), sys.executable, __file__, "--launch",
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, env=os.environ
    )
    counted = parse_csv(done.stdout)
    if len(counted) != len(launches()):
        sys.exit(f"ncu gave {len(counted)} launches of {len(launches())}: {done.stderr[-2000:]}")
    found: dict = {}
    for (entry, shape), metrics in zip(launches(), counted, strict=True):
        m, n, k = entry.fitting(*shape[:3])
        rows = found.setdefault(
            entry.name, {"code": record_corpus.key(entry), "counters": []}
        )  # fmt: skip
        rows["counters"].append({"m": m, "n": n, "k": k, "metrics": metrics})
    provenance = record_corpus.provenance() | {
        "ncu": ncu_version(),
        "command": "python tests/recorded/record_counters.py OUTDIR",
    }
    text = json.dumps({"provenance": provenance, "kernels": found}, indent=1)
    (out / "counters.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--launch":
        launch_all()
    else:
        record(Path(sys.argv[1]))
