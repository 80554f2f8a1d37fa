"""What gl.matmul chooses by: every kernel timed at drawn shapes, and the model fitted to the times.

    python benchmarks/train.py measure SEED COUNT DTYPE TIMES.csv [SECONDS]
    python benchmarks/train.py fit TIMES.csv ... FOLDER

`measure`, on a GPU, times all kernels of `tiles` with all variants that suit a shape, at
shapes.drawn(SEED, COUNT), for at most so many seconds; with ONLY in the environment, names of
rungs, those alone. `fit` finds the coefficients of gemmlab.products.model by least squares of the
relative error, then trees for what they miss, prints what the choice by them is worth on shapes
that were left out of the fit, in five parts, and writes choice.csv and choice_trees.csv.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from graphs import matrices, timed
from shapes import drawn

from gemmlab import ladder
from gemmlab.cuda.device import gpu
from gemmlab.kernel.compiler import Compiled, compile_kernel
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import HALF, SINGLE, Problem, Settings
from gemmlab.lessons.autotuning.kernels import KERNELS
from gemmlab.lessons.split_k.rung import SPLIT_FAMILIES
from gemmlab.lessons.tma_wgmma.rung import TRIED
from gemmlab.measure.timing import now
from gemmlab.products import model, trees
from gemmlab.products.model import COSTS, Curve, counts
from ptxsim.compile import nvrtc

COLUMNS = (
    "family", "m", "n", "k", "dtype", "rung", "settings", "us", "cublas_us", "gpu",
    "recorded",
)  # fmt: skip
ARCH = "sm_90a"
UNKNOWN_US = 1e6  # of a cost that was never counted: what has it is not chosen
LONGEST = {SINGLE.name: 1e12, HALF.name: 4.4e12}  # operations of a shape that is measured
MOST_BYTES = 3 << 34  # of memory in use after a shape
PARTS, MOST_PARTS_MB = COSTS.index("parts_mb"), 300
PARTS_LEFT_OUT = 5
MOST_ERROR, NEAR_THE_FASTEST = 1.0, 1.5  # of a logarithm; slow kernels count less
BOOSTING = {
    "max_iter": 100, "learning_rate": 0.15, "max_leaf_nodes": 31, "min_samples_leaf": 40,
    "l2_regularization": 1.0, "random_state": 0,
}  # fmt: skip
SLOW = 1.5  # times as long as the fastest so far: not timed to the end
ERROR = {SINGLE.name: 2e-4, HALF.name: 4e-3}  # of the largest element, beside cuBLAS's result


def tiles(dtype: str) -> list[tuple[str, Settings]]:
    """Rungs with settings, without those that are varied: each gets a Curve."""
    only = os.environ.get("ONLY", "").split()
    return [tile for tile in _all_tiles(dtype) if not only or tile[0] in only]


def _all_tiles(dtype: str) -> list[tuple[str, Settings]]:
    every = [
        (rung.name, family | extra)
        for rung in KERNELS
        if ladder.of_type(rung, dtype) is not None
        for family in rung.families
        for extra in ([{}, {"CUT": 0}] if "CUT" in rung.defaults else [{}])
    ]
    if dtype == SINGLE.name:
        every += [
            ("22_fp32_summit", {"BK": bk, "STREAM_K": cut, "STAGES": 64 // bk * 2})
            for bk in (32, 64)
            for cut in (0, 1)
        ]
        every += [
            ("12_split_k", family | {"JOIN": join})
            for family in SPLIT_FAMILIES
            for join in ((0, 3, 5) if 1 in (family["BM"], family["BN"]) else (0, 4, 6))
        ]
        return every
    of_tiles = {tuple(tried[name] for name in ("BM", "BN", "STAGES")) for tried in TRIED}
    for bm, bn, stages in sorted(of_tiles):
        tile = {"BM": bm, "BN": bn, "STAGES": stages}
        every += [("17_warp_specialized", tile | {"SPLIT": split}) for split in (1, 2, 4, 8)]
        every += [
            ("18_persistent", tile | {"CLUSTER": cluster, "SHARE_A": shared})
            for cluster, shared in ((1, 0), (2, 0), (2, 1), (4, 1))
        ]
    return every


def _tile_of(dtype: str, rung: str, settings: Settings) -> str:
    """Of `tiles` the one with these settings: the one that says most of them."""
    every = (
        tile
        for name, tile in tiles(dtype)
        if name == rung and all(settings[what] == value for what, value in tile.items())
    )
    return ladder.written(max(every, key=len))


def candidates(dtype: str, problem: Problem, target: ladder.Target) -> list[tuple[Curve, Settings]]:
    """What is worth timing at a shape."""
    chosen = []
    for name, settings in tiles(dtype):
        rung = ladder.find(name)
        curve = Curve(rung, settings, ())
        for variant in curve.variants(dtype, problem):
            counted = counts(rung, variant, problem, target)
            if rung.runs_on(variant, target.arch) and counted and counted[PARTS] < MOST_PARTS_MB:
                chosen.append((curve, variant))
    return chosen


def _compiled(job: tuple[str, Settings]) -> tuple[tuple[str, str], Compiled | str]:
    name, settings = job
    rung = ladder.find(name)
    macros = rung.macros(settings)
    key = name, ladder.written(macros)
    nvrtc.use_store(None)
    try:
        text = rung.path.read_text(encoding="utf-8")
        return key, compile_kernel(text, rung.path.name, arch=ARCH, macros=macros)
    except Exception as error:
        return key, str(error)[:200]


def measure(seed: int, count: int, dtype: str, path: str, limit: float) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        _measure(seed, count, dtype, csv.writer(file, lineterminator="\n"), limit)


def _measure(seed: int, count: int, dtype: str, kept: Any, limit: float) -> None:
    begin = time.time()
    kept.writerow(COLUMNS)
    shapes = drawn(seed, count)
    target = ladder.SIMULATED
    jobs = {}
    for shape in shapes:
        for curve, variant in candidates(dtype, Problem(shape.m, shape.n, shape.k), target):
            jobs[curve.rung.name, ladder.written(curve.rung.macros(variant))] = variant
    with multiprocessing.get_context("spawn").Pool() as pool:
        listed = [(name, variant) for (name, _), variant in jobs.items()]
        compiled = dict(pool.imap_unordered(_compiled, listed, chunksize=4))
    for key, made in compiled.items():
        if isinstance(made, str):
            print("does not compile:", *key, made, flush=True)
    print(f"{len(compiled)} kernels compiled in {time.time() - begin:.0f} s", flush=True)

    import cupy

    from gemmlab.cuda.cublas import Cublas

    stream, kernels, rows, written_rows = cupy.cuda.Stream(non_blocking=True), {}, [], 0
    for number, shape in enumerate(shapes):
        if time.time() - begin > limit:
            print(f"out of time after {number} of {count} shapes", flush=True)
            break
        m, n, k = shape.m, shape.n, shape.k
        if 2.0 * m * n * k > LONGEST[dtype]:
            continue
        with stream, Cublas(stream, dtype) as library:
            sets = matrices(m, n, k, dtype)
            reference = timed([partial(library.launch_into, *each) for each in sets], stream)
            right = sets[0][2].astype("f4")
            largest, fastest = float(abs(right).max()) + 1e-3, reference
            for curve, variant in candidates(dtype, Problem(m, n, k), target):
                name, written = curve.rung.name, ladder.written(curve.rung.macros(variant))
                made = compiled[name, written]
                if isinstance(made, str):
                    continue
                try:
                    kernel = kernels.get((name, ladder.written(variant)))
                    if kernel is None:
                        settings = ladder.settings_for(curve.rung, variant)
                        kernel = Kernel(curve.rung, settings, ARCH, curve.rung.path, made)
                        kernel = kernel.made_of(made.cubin)
                        kernels[name, ladder.written(variant)] = kernel
                    packed = [kernel.packed(kernel.given(*operands)) for operands in sets]
                except Exception as error:
                    print("fails:", m, n, k, name, variant, str(error)[:200], flush=True)
                    continue
                sets[0][2].fill(7)
                us = timed([each.enqueue for each in packed], stream, SLOW * fastest)
                error = float(abs(sets[0][2].astype("f4") - right).max()) / largest
                if not error <= ERROR[dtype]:
                    print("wrong:", m, n, k, name, variant, error, flush=True)
                fastest = min(fastest, us)
                rows.append((
                    shape.family, m, n, k, dtype, name, ladder.written(variant), round(us, 3),
                    round(reference, 3), gpu().name, now(),
                ))  # fmt: skip
        kept.writerows(rows[written_rows:])
        written_rows = len(rows)
        if cupy.get_default_memory_pool().used_bytes() > MOST_BYTES:  # workspaces of all kernels
            kernels.clear()
        if number % 50 == 0:
            print(number, shape, f"{time.time() - begin:.0f} s", flush=True)
    table = pandas.DataFrame(rows, columns=COLUMNS)
    best = table.groupby(["family", "m", "n", "k"]).agg({"us": "min", "cublas_us": "first"})
    _print_shares(best["cublas_us"] / best["us"], "the fastest")


def _print_shares(shares: pandas.Series, what: str) -> None:
    mean = np.exp(np.log(shares).groupby("family").mean()).round(3).to_dict()
    every = np.exp(np.log(shares).mean())
    print(
        f"{what}: {every:.3f} of cuBLAS, {(shares < 0.9).mean():.3f} below 0.9, least "
        f"{shares.min():.2f}; {mean}",
        flush=True,
    )


def fit(sweeps: list[str], folder: str) -> None:
    from scipy.optimize import least_squares, nnls

    table = pandas.concat(map(pandas.read_csv, sweeps), ignore_index=True)
    target = ladder.SIMULATED
    of_curve, counted_rows, kept = defaultdict(list), [], []
    for at, row in enumerate(table.itertuples()):
        rung, settings = ladder.find(row.rung), ladder.read_settings(row.settings)
        counted = counts(rung, settings, Problem(row.m, row.n, row.k), target)
        if counted is not None:
            key = row.dtype, row.rung, _tile_of(row.dtype, row.rung, settings)
            of_curve[key].append(len(counted_rows))
            counted_rows.append(counted)
            kept.append(at)
    table = table.loc[kept].reset_index(drop=True)
    counted_of, us = np.array(counted_rows, float), table["us"].to_numpy()
    shape = table.groupby(["m", "n", "k"]).ngroup().to_numpy()
    part = np.random.default_rng(0).integers(0, PARTS_LEFT_OUT, shape.max() + 1)[shape]

    def fitted(rows: np.ndarray) -> np.ndarray:
        """The coefficients, in µs. Large errors count less, as of times by few calls."""
        counted, times = counted_of[rows], us[rows]
        start, _ = nnls(counted / times[:, None], np.ones(len(rows)))
        smallest = 1e-4 * times.min() / np.maximum(counted.max(axis=0), 1e-9)
        start = np.log(np.maximum(start, smallest))

        def errors(x: np.ndarray) -> np.ndarray:
            return np.append(np.log(counted @ np.exp(x) / times), 0.003 * (x - start))

        x = least_squares(errors, start, loss="soft_l1", f_scale=0.1, max_nfev=60).x
        return np.where(counted.any(axis=0), np.exp(x), UNKNOWN_US)

    modelled, left_out = np.full(len(table), np.inf), np.full(len(table), np.inf)
    rows = []
    for key, members in of_curve.items():
        at = np.array(members)
        if len(at) <= len(COSTS):
            continue
        every = fitted(at)
        modelled[at] = counted_of[at] @ every
        coefficients = (f"{c * 1e-6:.4g}" for c in every)
        rows.append((*key, *coefficients, *table.loc[at, ["gpu", "recorded"]].max()))
        for number in range(PARTS_LEFT_OUT):
            known, asked = at[part[at] != number], at[part[at] == number]
            if len(known) > len(COSTS):
                left_out[asked] = counted_of[asked] @ fitted(known)
    nodes = []
    for dtype, of_type in table.groupby("dtype"):
        at = of_type.index[
            np.isfinite(modelled[of_type.index]) & np.isfinite(left_out[of_type.index])
        ]
        by_shape = of_type.loc[at].groupby(["family", "m", "n", "k"])
        names, given = _features(table.loc[at], counted_of[at], left_out[at])
        error = np.clip(np.log(us[at] / left_out[at]), -MOST_ERROR, MOST_ERROR)
        weight = (by_shape["us"].transform("min") / us[at]).to_numpy() ** NEAR_THE_FASTEST
        corrected = left_out[at].copy()
        for number in range(PARTS_LEFT_OUT):
            known = part[at] != number
            boosted = boosted_trees(given[known], error[known], weight[known])
            corrected[~known] *= np.exp(boosted.predict(given[~known]))
        best = by_shape["us"].min()
        _print_shares(by_shape["cublas_us"].first() / best, f"{dtype}, the fastest")
        for what, seconds in (
            ("chosen by the model", left_out[at]),
            ("chosen with trees", corrected),
        ):
            by_time = of_type.loc[at].assign(seconds=seconds)
            chosen = by_time.loc[by_time.groupby(["family", "m", "n", "k"])["seconds"].idxmin()]
            chosen = chosen.set_index(["family", "m", "n", "k"])
            _print_shares(chosen["cublas_us"] / chosen["us"], f"{dtype}, {what}")
        nodes += nodes_of(dtype, boosted_trees(given, error, weight), names)
    path = Path(folder)
    with (path / model.FILE).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [("dtype", "rung", "settings", *COSTS, "gpu", "recorded"), *rows]
        )
    pandas.DataFrame(nodes).to_csv(
        path / trees.FILE, index=False, float_format="%.6g", lineterminator="\n"
    )


def _features(
    table: pandas.DataFrame, counted_of: np.ndarray, modelled_us: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """Names, and a row of values for each row of the table."""
    rows = [
        model.features(
            ladder.find(row.rung), ladder.read_settings(row.settings), Problem(row.m, row.n, row.k),
            counted, 1e-6 * us,
        )
        for row, counted, us in zip(table.itertuples(), counted_of, modelled_us, strict=True)
    ]  # fmt: skip
    of_rows = pandas.DataFrame(rows).fillna(trees.ABSENT)
    of_rows = of_rows.loc[:, of_rows.nunique() > 1]
    return list(of_rows.columns), of_rows.to_numpy()


def boosted_trees(given: np.ndarray, error: np.ndarray, weight: np.ndarray) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(**BOOSTING).fit(given, error, sample_weight=weight)


def nodes_of(dtype: str, boosted: Any, names: list[str]) -> list[dict]:
    """Rows of choice_trees.csv. The first tree is a leaf: what boosting begins with."""
    rows = [{"dtype": dtype, "tree": 0, "value": float(np.ravel(boosted._baseline_prediction)[0])}]
    for number, (predictor,) in enumerate(boosted._predictors, start=1):
        for node in predictor.nodes:
            row = {"dtype": dtype, "tree": number}
            if node["is_leaf"]:
                row["value"] = node["value"]
            else:
                row |= {
                    "feature": names[node["feature_idx"]], "threshold": node["num_threshold"],
                    "left": node["left"], "right": node["right"],
                }  # fmt: skip
            rows.append(row)
    return rows


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    if what == "measure":
        measure(int(given[0]), int(given[1]), given[2], given[3], float([*given, 1e9][4]))
    else:
        fit(given[:-1], given[-1])
