"""What parts leave out of a number, where the error of a product comes from, and its speed."""

import numpy as np
import pandas

from gemmlab.lessons.emulated_fp32 import errors, model
from gemmlab.lessons.emulated_fp32.errors import DEPTH, PROMOTE, SGEMM, WAYS, Case
from gemmlab.lessons.emulated_fp32.measure import ALONE, PAIRS, POWER, SPEEDS, SUMMIT
from gemmlab.lessons.tma_wgmma.tables import TENSOR_FLOP_PER_CYCLE, sm_count
from gemmlab.records import best_by_shape
from gemmlab.records.ablations import HUGE
from gemmlab.records.best_by_shape import IN_TURN, SUSTAINED

EVERY = 25  # of the numbers from 1 to 2, how many there are to one that is split


def left_by_parts() -> pandas.DataFrame:
    """The largest share of a number from 1 to 2 that is left after each part, in BF16 and FP16."""
    numbers = (1 + np.arange(0, 2**23, EVERY) * 2.0**-23).astype(np.float32)[:, None]
    columns = {}
    for way in ("BF16×9", "FP16×3"):
        parts = _values(numbers, WAYS.index(way))
        shares = [(abs(numbers - sum(parts[:i])) / numbers).max() for i in range(1, len(parts) + 1)]
        columns[way.partition("×")[0]] = pandas.Series(shares, range(1, len(shares) + 1))
    return pandas.DataFrame(columns).rename_axis("parts")


def account(way: str, promote: int, data: str, k: int = DEPTH) -> pandas.Series:
    """Root mean squares of what each step adds to the error, as shares of |A| |B|.

    What the parts leave out, the products that are not computed, the sums of the largest parts
    with their promotion, and all else, that is corrections and the last addition.
    """
    A, B = errors.matrices(data, k)
    number = WAYS.index(way)
    how, wide_a, wide_b = model.WAYS[number], A.astype(np.float64), B.astype(np.float64)
    left, right = _values(A, number), [part.T for part in _values(B.T, number)]
    all_parts = sum(left) @ sum(right)
    kept = left[0] @ right[0] + sum(left[i] @ right[j] for i, j in how.corrections)
    largest = [X[0].astype(np.float32) for X in (left, right)]
    sums = model.product(*largest, number, promote) - left[0] @ right[0]
    C = Case(way, promote, data, k).multiply(A, B)
    steps = {
        "parts": all_parts - wide_a @ wide_b, "products left out": kept - all_parts,
        "sums of the largest parts": sums, "all else": C - kept - sums,
        "error": C - wide_a @ wide_b,
    }  # fmt: skip
    size = abs(wide_a) @ abs(wide_b)
    return pandas.Series({name: np.sqrt(np.mean((x / size) ** 2)) for name, x in steps.items()})


def _values(X: np.ndarray, way: int) -> list[np.ndarray]:
    """The parts of each number, float64, as much as each has of it."""
    parts, exponents = model.split(X, way)
    scales = np.exp2(exponents.astype(np.float64))[:, None]
    return [part * model.WAYS[way].step ** i * scales for i, part in enumerate(parts)]


# ---- speed ---------------------------------------------------------------------------------------


def speeds() -> pandas.DataFrame:
    """Recorded rows of 22 and of each way at squares of PAIRS, splitting included.

    step: SUMMIT or one of WAYS. way: as best_by_shape has it, in turn with cuBLAS SGEMM; or ALONE
    and the load, each launched without the other, at HUGE. times: as fast as SGEMM. Raises
    NoRecord, StaleRecord.
    """
    fma = best_by_shape.tuned(SUMMIT).query("m == n == k and m in @PAIRS").assign(step=SUMMIT)
    alone = POWER.read()
    theirs = alone[alone["step"] == SGEMM].set_index("load")["tflops"]
    shares = 100 * alone["tflops"] / alone["load"].map(theirs)
    ours = alone.assign(pct_cublas=shares, way=ALONE + alone["load"])[alone["step"] != SGEMM]
    rows = pandas.concat([fma, SPEEDS.read(), ours], ignore_index=True)
    return rows.assign(times=rows["pct_cublas"] / 100)


def largest_errors() -> pandas.DataFrame:
    """At DEPTH, as shares of |A| |B|: a column for each way, and SUMMIT for one FMA after the
    other, as 22 and SGEMM add; a row for each kind of data. Raises NoRecord, StaleRecord."""
    table = errors.ERRORS.read()
    at = table[table["k"] == DEPTH].set_index(["way", "promote"])
    promoted = {SUMMIT: (SGEMM, 0)} | {way: (way, PROMOTE[way]) for way in WAYS}
    of = {name: at.loc[[how]].set_index("data")["largest"] for name, how in promoted.items()}
    return pandas.DataFrame(of)


def both_ways() -> pandas.DataFrame:
    """FP32 by its own units and by tensor cores, as texts: TFLOP/s, times as fast as cuBLAS, energy
    and the largest error, on normal data and as a multiple of SGEMM's. Raises what both do.

    of full rate, %: alone and sustained, of TENSOR_FLOP_PER_CYCLE of all SMs, by their own clock.
    """
    rows, wrong = speeds().set_index(["m", "way", "step"]).sort_index(), largest_errors()
    alone = POWER.read().query("load == @SUSTAINED").set_index("step")
    products = pandas.Series({way.name: 1 + len(way.corrections) for way in model.WAYS})
    per_cycle = alone["tflops"] * products / alone["sm_clock_mhz"] * 1e6
    of_full = 100 * per_cycle / (sm_count() * TENSOR_FLOP_PER_CYCLE)
    relative = wrong.div(wrong[SUMMIT], axis=0).map("{:.2f}".format)
    columns = {f"TFLOP/s at {HUGE[0]}³": rows["tflops"][HUGE[0], IN_TURN].map("{:.1f}".format)}
    for m in PAIRS:
        columns[f"× cuBLAS at {m}³"] = rows["times"][m, IN_TURN].map("{:.2f}".format)
    columns["alone"] = rows["times"][HUGE[0], ALONE + SUSTAINED].map("{:.2f}".format)
    columns["J per TFLOP"] = alone["joules_per_tflop"].map("{:.1f}".format)
    columns["of full rate, %"] = of_full.dropna().map("{:.0f}".format)
    columns["error"] = wrong.loc["normal"].map("{:.1e}".format)
    columns["× SGEMM's"] = relative.agg(lambda of: " to ".join(dict.fromkeys((min(of), max(of)))))
    return pandas.DataFrame(columns).loc[[SGEMM, SUMMIT, *WAYS]].fillna("").rename_axis("FP32")
