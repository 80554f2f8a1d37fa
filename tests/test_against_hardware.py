"""The simulator against the GPU: results bit for bit, counters one by one, at recorded shapes.

Where there is a GPU, also kernels that are no rungs, and the arithmetic on any bits at all.
"""

import hashlib
import importlib
import math
import shutil
import subprocess
import sys
from pathlib import Path

import hardware
import numpy as np
import pytest
import sample_kernels

import ptxsim
from gemmlab.analysis import counters
from gemmlab.ladder import RUNGS, find, settings_for
from gemmlab.ladder.settings import EVERY_PART, LAST_ARRIVER
from gemmlab.loading import load
from gemmlab.records import runs
from ptxsim.architectures import WARP
from ptxsim.metrics import METRICS, TIMING_DEPENDENT

device = importlib.import_module("gemmlab.cuda.device")

SHARED_METRICS = ("pipe_lsu_wavefronts_mem", "bank_conflicts_pipe_lsu_mem")
MOST_COLLISIONS = {"shared_op_ld": 0.014, "shared_op_st": 0.18}  # of all wavefronts, in any record
LARGEST = 1100  # larger products take too long
ODD = 1001, 777, 513  # no tile of a rung covers C exactly: all blocks are counted
PRODUCT = "m", "n", "k", "alpha", "beta", "seed"

needs_gpu = pytest.mark.skipif(device.gpu() is None, reason=f"needs a GPU: {device.why_no_gpu()}")


# ---- known differences of counts, which docs/results.md explains ---------------------------------

LOOKS = 8  # at a flag until it is set, at most, on average: more are not known


def predicated(trace):
    """Loads of the sums of an element in shared memory that no lane of a warp executes: of whole
    tiles where rows of C are odd."""
    if trace.n % 4 == 0:
        return 0
    rows, columns = find(trace.kernel_name).tile(trace.settings)
    within = trace.lines.query("op == 'store' and array == 'C'")["requests"].sum()
    return math.prod(trace.grid) * rows * columns // WARP - int(within)


def more_on_gpu(trace, metric):
    """The least and the most that the GPU counts more, where it depends on time how much."""
    blocks, join = math.prod(trace.grid), trace.settings.get("JOIN")
    stores, loads = (
        int(trace.lines.query("array == 'flags' and op == @op")["requests"].sum())
        for op in ("store", "load")
    )
    # The one thread that counts loads four times before it: on arrival, and where all wait as a
    # block leaves.
    counts = {LAST_ARRIVER: 1, EVERY_PART: 2}.get(join, 0)
    looks = LOOKS * blocks if join == EVERY_PART else 0
    shared, from_global = METRICS["shared", "load"][:1], METRICS["global", "load"]
    known = {
        ("14_wmma", shared): lambda: (predicated(trace),) * 2,
        ("12_split_k", shared): lambda: (4 * counts * blocks,) * 2,
        ("12_split_k", from_global): lambda: (0, looks),
        # Of each part a flag is set; as often one is cleared.
        ("22_fp32_summit", shared): lambda: (4 * stores,) * 2,
        ("22_fp32_summit", from_global): lambda: (stores - loads, LOOKS * stores - loads),
    }
    of_metric = (
        bounds()
        for (rung, metrics), bounds in known.items()
        if trace.kernel_name == rung and metric in metrics
    )
    return next(of_metric, (0, 0))


def is_known(trace, metric, more):
    least, most = more_on_gpu(trace, metric)
    return least <= more <= most


def assert_counted(kernel, shape, recorded, seed=0):
    """Equal, or different as is known; and the GPU also counts accesses of shared memory that met
    other traffic."""
    trace, times = counters.traced(kernel, *shape, seed)
    simulated = {name: times * count for name, count in trace.counters.items()}
    exact = (simulated.keys() & recorded.keys()) - TIMING_DEPENDENT
    assert len(exact) >= 5
    more = {name: (recorded[name] - simulated[name]) / times for name in exact}
    known = {name: is_known(trace, name, n) for name, n in more.items()}
    assert all(known.values()), {name: more[name] for name in exact if not known[name]}
    for metric, share in MOST_COLLISIONS.items():
        wavefronts, conflicts = (f"l1tex__data_{which}_{metric}.sum" for which in SHARED_METRICS)
        most = share * simulated[wavefronts]
        for name in (wavefronts, conflicts):
            assert 0 <= recorded[name] - simulated[name] <= most, name


def test_a_difference_is_known_by_its_size_and_where_time_decides_by_its_bounds():
    trace = load("22_fp32_summit").trace(256, 512, 128)
    shared, loads = METRICS["shared", "load"][0], METRICS["global", "load"][0]
    stores = int(trace.lines.query("array == 'flags' and op == 'store'")["requests"].sum())
    assert stores > 0
    for metric, more, known in (
        (shared, 4 * stores, True), (shared, 4 * stores - 1, False), (shared, 0, False),
        (loads, 0, True), (loads, 10 * stores, False), (loads, -3 * stores, False),
        (METRICS["global", "store"][0], 0, True), (METRICS["global", "store"][0], 1, False),
    ):  # fmt: skip
        assert is_known(trace, metric, more) == known, (metric, more)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_every_recorded_counter_and_every_bit_of_recorded_results_is_the_same(rung, monkeypatch):
    """The launch that is counted at ODD gives the result there too.

    Others run uncounted and in threads, as many as a reader's machine has at least. ODD is not
    simulated again with factors: what they do to an element the other shapes show.
    """
    kernel = load(rung.name)
    recorded = runs.entry(kernel)
    results = {tuple(r[name] for name in PRODUCT): r["sha256"] for r in recorded["results"]}
    assert {product[:3] for product in results} >= {ODD, (5, 7, 0), (1, 1, 1)}
    assert len(results) == len(recorded["results"])

    small = {(c["m"], c["n"], c["k"]): c["metrics"] for c in recorded["counters"]}
    small = {shape: metrics for shape, metrics in small.items() if shape[0] <= LARGEST}
    assert len(small) >= 2 and ODD in small
    seed = next(product[-1] for product in results if product[:5] == (*ODD, 1.0, 0.0))
    launched = []  # the arguments, as the kernel left them

    def launch(*how, **more):
        run = simulate(*how, **more)
        launched.append(how[4])
        return run

    simulate = ptxsim.launch
    for shape, metrics in small.items():
        launched.clear()
        with monkeypatch.context() as patch:
            patch.setattr(ptxsim, "launch", launch)
            assert_counted(kernel, shape, metrics, seed)
        if shape == ODD:
            C = launched[0][2]
            digest = results.pop((*ODD, 1.0, 0.0, seed))
            assert hashlib.sha256(C.tobytes()).hexdigest() == digest
    results = {product: digest for product, digest in results.items() if product[:3] != ODD}
    monkeypatch.setattr(ptxsim.grid, "THREADS", 2)
    for product, digest in results.items():
        assert runs.result_digest(kernel, *product) == digest, product


def test_results_and_counters_of_a_large_product_are_the_same():
    kernel = load("01_naive")
    _, counted = runs.counters_at(kernel, 4096, 4096, 4096)
    assert_counted(kernel, (4096, 4096, 4096), counted)


# --- with a GPU -----------------------------------------------------------------------------------


def on_gpu(source, grid, block, args, shared_bytes=0):
    arch = device.gpu().arch
    hardware.launch(source, "k", grid, block, args, arch=arch, shared_bytes=shared_bytes)
    return args


def in_simulator(source, grid, block, args, shared_bytes=0):
    arch = device.gpu().arch
    run = ptxsim.launch(source, "k", grid, block, args, arch=arch, shared_bytes=shared_bytes)
    assert run.findings == []
    return args


def different(a, b):
    """Where the bits differ; the GPU has one NaN, NumPy many, and all of them are one here."""
    differ = a.view(f"u{a.itemsize}") != b.view(f"u{a.itemsize}")
    return differ & ~(np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else differ


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("name", sample_kernels.SAMPLES)
def test_a_sample_kernel_gives_the_same_bits_on_the_gpu(name):
    sample = sample_kernels.SAMPLES[name]
    launch = sample.text, sample.grid, sample.block
    measured = on_gpu(*launch, sample.args(), sample.shared_bytes)
    simulated = in_simulator(*launch, sample.args(), sample.shared_bytes)
    for a, b in zip(measured, simulated, strict=True):
        if isinstance(a, np.ndarray):
            assert np.argwhere(different(a, b)).tolist() == []


SANITIZER = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
CHECKED_SETTINGS = [(rung.name, {}) for rung in RUNGS] + [("09_double_buffering", {"STAGES": 3})]
# racecheck does not follow the mbarriers by which a place of a ring is handed back (see the correct
# ring in docs/mistakes.md): for it K ends before a place is filled again. The simulator follows.
RINGS = ("12_split_k", "13_batched")


@pytest.mark.gpu
@needs_gpu
@pytest.mark.skipif(not Path(SANITIZER).exists(), reason="needs compute-sanitizer")
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
@pytest.mark.parametrize(("name", "settings"), CHECKED_SETTINGS, ids=str)
def test_a_rung_is_clean_under_compute_sanitizer(name, settings, tool):
    """At a whole tile, one row and column more, sizes that are no multiples of 4, and one."""
    rung = find(name)
    full = settings_for(rung, settings)
    rows, cols = rung.tile(full)
    shapes = [(rows, cols, 64), (rows + 1, cols + 1, 33), (2 * rows, 2 * cols, 40), (61, 67, 71)]
    if tool == "racecheck" and name in RINGS:
        shapes = [(m, n, min(k, full["STAGES"] * full["BK"])) for m, n, k in shapes]
    chosen = (f"--set={key}={value}" for key, value in settings.items())
    done = subprocess.run(
        [
            SANITIZER, f"--tool={tool}", "--error-exitcode=9",
            sys.executable, "-m", "gemmlab.measure.profiler", name,
            *("x".join(map(str, shape)) for shape in shapes), *chosen,
        ],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    summary = "ERROR SUMMARY: 0 errors" if tool == "memcheck" else "0 hazards displayed"
    assert summary in done.stdout
