"""A made-up record, and a kernel that fits it, for the tests of whatever reads records."""

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

from gemmlab.cuda.device import Gpu
from gemmlab.kernel.fingerprint import code_hash, of_rung
from gemmlab.ladder import Problem, Target, find, settings_for
from gemmlab.measure import profiler
from gemmlab.measure.ceilings import of_ceilings
from gemmlab.records import registry, runs

device = importlib.import_module("gemmlab.cuda.device")  # gemmlab.device is a function

SOURCE = """
// a comment
extern "C" __global__ void naive(float* C) { C[0] = 1.0f; }
"""
SETTINGS = settings_for(find("01_naive"), {})
GPU = Gpu(
    name="NVIDIA Test", compute_capability=(9, 0), arch="sm_90a", sm_count=132,
    memory_bytes=10**11, l2_bytes=60 * 2**20, driver="1.0", cuda="1.0",
)  # fmt: skip
GPU_NAME = GPU.name
TARGET = Target(GPU.arch, GPU.sm_count)
SIZES = 512, 4096  # of the squares that are timed; the first is counted, too
DATE = "2026-11-21T10:00:00+00:00"


def kernel(text: str = SOURCE, **settings: int) -> SimpleNamespace:
    """What records needs to know of a kernel, without compiling anything."""
    rung = find("01_naive")
    chosen = SETTINGS | settings
    return SimpleNamespace(
        name=rung.name,
        rung=rung,
        settings=chosen,
        precision=rung.precision,
        on_gpu=False,
        code_hash=lambda: code_hash(text, chosen),
        fingerprint=lambda problems, on: of_rung(rung, chosen, problems, on, text),
    )


def code_of(kernel) -> str:
    """Of a kernel at the shapes of `record`."""
    return str(kernel.fingerprint([Problem(n, n, n) for n in (*SIZES, SIZES[0])], TARGET))


def spread(median: float) -> dict[str, float]:
    return {"best": median, "q1": median, "median": median, "q3": median}


def run(m: int, n: int, k: int, time_ms: float) -> dict:
    return {
        "kernel": "01_naive", "dtype": "float32", "m": m, "n": n, "k": k,
        "time_ms": spread(time_ms), "cublas_ms": spread(time_ms / 4),
        "ratio": spread(0.25), "noise": spread(1.0),
        "sm_clock_mhz": 1980, "power_w": 300.5, "temperature_c": 40,
        "pairs": 20, "noise_pairs": 5, "launches": 20, "cublas_launches": 40, "input_sets": 3,
        "verify": "pass", "gpu": GPU_NAME, "recorded": DATE,
    }  # fmt: skip


def unshared(value: dict) -> dict:
    """A copy in which no part appears twice, as a file would hold it."""
    return json.loads(json.dumps(value))


def record(code: str | None = None, ceilings_code: str = "sha256:0") -> dict:
    """A whole record with one rung, 01_naive, of which `kernel()` is the current version."""
    provenance = {
        name: "1.0"
        for name in ("driver", "cuda", "nvrtc", "cublas", "cupy", "numpy", "gemmlab", "python")
    } | {"recorded": DATE, "gpu": GPU_NAME, "ncu": None}
    state = {"sm_clock_mhz": 1980, "power_w": 600.0, "temperature_c": None}
    shape = {"m": 512, "n": 512, "k": 512}
    scales = {"alpha": 1.0, "beta": 0.0}
    metrics = {
        "dram__bytes_read.sum": 2_000_000,
        "dram__bytes_write.sum": 1_000_000,
        "lts__t_bytes.sum": 30_000_000,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 10,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 45,
    }
    return unshared({
        "schema": 1,
        "gpu": {
            "name": GPU_NAME, "compute_capability": [9, 0], "sm_count": 132,
            "memory_bytes": 10**11, "l2_bytes": 60 * 2**20,
        },
        "ceilings": {
            "provenance": provenance,
            "code": ceilings_code,
            "copy": {"bytes_per_second": spread(4e12), "bytes": 4 * 2**30, **state},
            "fma": {"flop_per_second": spread(64e12), "flop": 10**12, **state},
        },
        "rungs": {
            "01_naive": {
                "provenance": provenance,
                "code": code or code_of(kernel()),
                "settings": SETTINGS,
                "runs": [run(n, n, n, time) for n, time in zip(SIZES, (0.5, 275.0), strict=True)],
                "skipped": [
                    {"m": 8192, "n": 8192, "k": 8192, "reason": "too long", "time_ms": 2200.0}
                ],
                "counters": [{**shape, "metrics": metrics}],
                "results": [{**shape, **scales, "seed": 100, "sha256": "00"}],
            }
        },
    })  # fmt: skip


def put(monkeypatch, folder: Path, **how) -> Path:
    """A results folder with record(**how), on a machine without a GPU; returns the file."""
    monkeypatch.setattr(registry, "RESULTS", folder)
    monkeypatch.setattr(device, "_find_gpu", lambda: "there is none.")
    monkeypatch.delenv("GEMMLAB_RECORDS", raising=False)
    path = folder / "nvidia-test" / registry.RUNS
    runs.save(record(**how), path)
    return path


def put_with_ceilings(monkeypatch, folder: Path) -> Path:
    """The same, with ceilings that are current."""
    return put(monkeypatch, folder, ceilings_code=str(of_ceilings(GPU.sm_count)))


def measure_on(monkeypatch, *modules, gpu: Gpu = GPU, **versions: str) -> None:
    """Let these modules, and what keeps their rows, find a GPU, with these versions or "1.0"."""
    every = dict.fromkeys(("driver", "cuda", "nvrtc", "cublas", "cupy", "python"), "1.0") | versions
    for module in (registry, *modules):
        monkeypatch.setattr(module, "require_gpu", lambda purpose: gpu)
    monkeypatch.setattr(registry, "software_versions", lambda: every)


def count_with(monkeypatch, counted, *modules) -> None:
    """Let these modules find a GPU, whose Nsight Compute counts as `counted` says."""
    measure_on(monkeypatch, *modules)
    monkeypatch.setattr(registry, "ncu_version", lambda: "2025.3.1.0")
    monkeypatch.setattr(profiler, "ncu_version", lambda: "2025.3.1.0")
    monkeypatch.setattr(profiler, "counters", counted)
