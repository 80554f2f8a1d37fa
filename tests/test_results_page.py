"""docs/results.md and docs/matmul.md: the numbers of their prose are those of the records."""

import json
from datetime import datetime, timedelta

import numpy as np
import pandas
import pytest

import gemmlab as gl
from gemmlab.folders import RESULTS, ROOT
from gemmlab.ladder import RUNGS, SINGLE, Problem, find
from gemmlab.lessons.ceilings import measure as chains
from gemmlab.lessons.fp8 import errors as fp8_errors
from gemmlab.lessons.fp8 import tables as costs
from gemmlab.lessons.fp32_summit import measure as summit_steps
from gemmlab.lessons.fused_epilogue import epilogues
from gemmlab.lessons.fused_epilogue.measure import TABLE as EPILOGUES
from gemmlab.lessons.multi_gpu import measure as cases
from gemmlab.lessons.multi_gpu import measure as several_gpus
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu.gpus.runner import DMA_ENGINES
from gemmlab.lessons.tma_wgmma import measure as hopper_steps
from gemmlab.lessons.tma_wgmma import tables as hopper_tables
from gemmlab.lessons.warp_specialized import comparisons
from gemmlab.lessons.warp_specialized.comparisons import LOADED, RESTED
from gemmlab.lessons.wmma import figures
from gemmlab.records import best_by_shape, registry, runs, tuning
from gemmlab.records.best_by_shape import IN_TURN
from gemmlab.records.runs import LARGE, Measured

HUGE = (8192, 8192, 8192)


def page(name):
    """A page of docs/ with every run of white space as one space."""
    return " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())


RESULTS_PAGE = page("results.md")


def share(name, shape=LARGE):
    """Percent of cuBLAS that a rung has in runs.json with its default settings."""
    return 100 * runs.replay_at(Measured(find(name)), *shape).ratio.median


def rows(name):
    return pandas.read_csv(RESULTS / "nvidia-h200" / name)


def test_the_spread_between_recordings_of_18():
    """The record, the steps, the sweep, and what gl.choose goes by."""
    rung = find("18_persistent")
    of_steps = hopper_steps.TABLE.rows_of(hopper_steps.WAY[-1:])["pct_cublas"].iloc[0]
    swept = tuning.at(tuning.recorded(rung.name), LARGE)
    of_sweep = swept[(swept[[*rung.defaults]] == [*rung.defaults.values()]).all(axis=1)]
    chosen = best_by_shape.at(rung.name, Problem(*LARGE))["pct_cublas"]
    shares = share(rung.name), of_steps, of_sweep["pct_cublas"].item(), chosen
    assert f"at 4096³ give {min(shares):.1f} % to {max(shares):.1f} % of cuBLAS" in RESULTS_PAGE


def test_10_is_the_fastest_that_needs_no_hopper():
    fp32 = [rung for rung in RUNGS if rung.precision is SINGLE and rung.shown_at is None]
    everywhere = [rung.name for rung in fp32 if not rung.needs_arch(rung.defaults).endswith("a")]
    assert max(everywhere, key=share) == "10_register_banks"
    assert "`10_register_banks` is the fastest rung for large FP32 products" in RESULTS_PAGE


def test_what_22_reaches():
    table = summit_steps.TABLE.read().query(f"way == '{IN_TURN}'")
    table = table.set_index(["step", "m"])

    def cells(step, sizes):
        of_step = (table.loc[(step.title, size)] for size in sizes)
        return " | ".join(f"{row.pct_cublas:.1f} %, {row.tflops:.1f}" for row in of_step)

    best, moved = summit_steps.WAY[-1], summit_steps.REWRITTEN[-1]
    assert f"| 22_fp32_summit | {cells(best, (2048, 4096, 8192, 16384))} |" in RESULTS_PAGE
    assert f"| with the loads moved | | {cells(moved, (4096, 8192))} | |" in RESULTS_PAGE
    small = gl.chosen_shares().query("group == 'squares'")
    assert small["m"].max() == 1024 and set(small["kernel"]) == {"12_split_k"}


def test_what_23_reaches_and_its_error_is_compared_with():
    steps = rows("emulated_steps.csv").query("step == 'BF16×6'")
    times = steps[steps["m"] >= 4096]["pct_cublas"] / 100
    assert f"it is {times.min():.1f} to {times.max():.1f} times as fast" in page("matmul.md")
    small = steps.query("way == 'in turn'").set_index("m")["pct_cublas"] / 100
    assert f"{small[1024]:.1f} times at 1024³ and {small[2048]:.1f} at 2048³" in page("matmul.md")
    power = rows("emulated_power.csv").query("load == 'sustained'").set_index("step")["tflops"]
    assert f"each alone, {power['BF16×6'] / power['SGEMM']:.1f} times" in page("matmul.md")
    ten = rows("summit_steps.csv").query("kernel == '10_register_banks' and error > 0")
    assert (ten["error"] == ten["cublas_error"]).all() and "error in all recorded" in RESULTS_PAGE


def test_what_an_epilogue_costs():
    table = EPILOGUES.read()
    ratio = table.set_index(["m", "n", "k", "activation", "way"])["ratio"]

    def lost(shape, activation):
        return 100 * (1 - ratio[(*shape, activation, epilogues.ALONE)])

    assert abs(lost(LARGE, "ReLU")) < 0.2
    tanh, erf = lost(LARGE, "GELU by tanh"), lost(LARGE, "GELU by erf")
    assert f"GELU takes {tanh:.1f} % of the time by tanh and {erf:.1f} % by erf" in RESULTS_PAGE
    relu = [lost((side, side, 64), "ReLU") for side in (1024, 4096, 8192)]
    gelu = [lost((8192, 8192, 256), f"GELU by {form}") for form in ("tanh", "erf")]
    assert (
        f"ReLU takes {min(relu):.0f} to {max(relu):.0f} % of the time at `K` = 64, "
        f"GELU {min(gelu):.0f} to {max(gelu):.0f} % at 8192×8192×256"
    ) in RESULTS_PAGE
    deep, cube = (ratio[(*shape, "ReLU", epilogues.BY_FOUR)] for shape in ((8192, 8192, 64), LARGE))
    assert f"{deep:.2f} times as long as rung 11 at 8192×8192×64 and {cube:.2f} times at" in (
        RESULTS_PAGE
    )
    fused = table[(table["activation"] == "ReLU") & (table["way"] == epilogues.LT)]
    large, small = fused[fused["m"] > 1024]["ratio"], fused[fused["m"] == 1024]["ratio"]
    assert (
        f"takes {large.min():.2f} to {large.max():.2f} times as long at 4096×4096 and 8192×8192, "
        f"and {small.min():.2f} to {small.max():.2f} times at 1024×1024"
    ) in RESULTS_PAGE
    behind = {k: ratio[(1024, 1024, k, "ReLU", epilogues.BY_FOUR)] for k in epilogues.DEPTHS}
    assert all((behind[k] < 1) == (k >= 2048) for k in behind)
    assert "At 1024×1024 with `K` of 2048 or more" in RESULTS_PAGE


def test_what_batches_reach():
    batches = rows("best_by_shape.csv").query("batch > 1")["pct_cublas"]
    assert f"13 reaches {batches.min():.0f} to {batches.max():.0f} % of cuBLAS's" in RESULTS_PAGE


def test_what_mma_sync_reaches():
    table = figures.account("14_wmma", "15_mma_sync")
    wmma, mma = 100 * table[figures.ALONE] / table["SM cycles"]
    shown = f"take {wmma:.0f} % of the counted cycles of 14 at 4096³, and {mma:.0f} %"
    assert shown in RESULTS_PAGE
    odd = share("14_wmma", (1001, 777, 513))
    assert f"it reaches {odd:.1f} % of cuBLAS at 1001×777×513" in RESULTS_PAGE
    types = rows("mma_types.csv").query("m == 4096").set_index("dtype")
    for dtype, name in (
        ("float16", "FP16"), ("bfloat16", "BF16"), ("tf32", "TF32"), ("int8", "INT8"),
        ("float8_e4m3", "FP8, E4M3"), ("float8_e5m2", "FP8, E5M2"),
    ):  # fmt: skip
        row = types.loc[dtype]
        assert f"| {name} | {row.tflops:.0f} | {row.pct_cublas:.1f} |" in RESULTS_PAGE


@pytest.mark.parametrize("name", ["16_tma_wgmma", "17_warp_specialized", "18_persistent"])
def test_what_wgmma_reaches(name):
    assert f"| {name} | {share(name):.1f} | {share(name, HUGE):.1f} |" in RESULTS_PAGE


def test_what_18_reaches_without_overlap():
    for load, when in ((RESTED, "after a rest"), (LOADED, "without a rest")):
        table = comparisons.changes("registers", load).query("variant == '18, registers move'")
        for column, whose in (
            ("% of cuBLAS", "cuBLAS's first choice"),
            ("% of cuBLASLt", "the fastest of cuBLASLt's proposals"),
        ):
            cube, huge = table[column]
            assert f"| {when}, % of {whose} | {cube:.1f} | {huge:.1f} |" in RESULTS_PAGE


def test_what_the_products_fill_of_the_cycles():
    table = hopper_tables.cycles("18_persistent", "16_tma_wgmma")
    ours, before = table.loc["products at full rate"]
    assert f"fill {ours:.0f} % of the cycles of all SMs in 18, and {before:.0f} %" in RESULTS_PAGE
    assert table.loc["SMs without a tile"].tolist() == pytest.approx([100 * 4 / 132] * 2)


def test_what_fp8_reaches():
    kinds = costs.speeds().set_index("scales")
    for scales, name in (
        ("tensors", "per-tensor scales"), ("rows", "per-row scales"), ("blocks", "block scales"),
    ):  # fmt: skip
        shares = kinds.loc[scales, "pct_cublas"]
        assert f"| {name} | {' | '.join(f'{share:.1f}' for share in shares)} |" in RESULTS_PAGE
    us = {scales: kinds.loc[scales, "us"].to_numpy() for scales in kinds.index.unique()}
    blocks = us["tensors"] / us["blocks"]
    assert f"has {blocks.min():.2f} to {blocks.max():.2f} of its speed" in RESULTS_PAGE
    gain = us.pop(costs.BF16) / np.array([*us.values()])
    assert f"FP8 is {gain.min():.2f} to {gain.max():.2f} times as fast as 18" in RESULTS_PAGE
    errors = fp8_errors.ERRORS.read()
    apart = abs(errors["sum_error"] / errors["cublas_sum_error"] - 1)
    assert f"in {(apart == 0).sum()} of {len(apart)} cases" in RESULTS_PAGE
    assert apart.max() < 3 / 100_000


def test_what_two_gpus_gain():
    table = several_gpus.SPEEDS.read()
    table = table[(table.schedule == make.COLUMN) & (table.moved_by == DMA_ENGINES)]
    fp32, bf16 = (
        table[(table.kernel == kernel) & (table.m == 16384) & (table.n == 16384)].iloc[0]
        for kernel in ("10_register_banks", "18_persistent")
    )
    assert (
        f"{cases.CUBE} in FP32 is {fp32.one_gpu_ms / fp32.ms:.2f} times as fast as on one, in BF16 "
        f"{bf16.one_gpu_ms / bf16.ms:.2f} times"
    ) in RESULTS_PAGE


def test_how_long_a_second_gpu_takes():
    folder = RESULTS / "nvidia-h100-80gb-hbm3"
    kept = json.loads((folder / registry.RUNS).read_text())["rungs"]
    with registry.records_of(folder.name):
        began = chains.TABLE.read()["recorded"].min()
    dates = [run["recorded"] for rung in RUNGS[:7] for run in kept[rung.name]["runs"]]
    assert began < min(dates)
    spent = datetime.fromisoformat(max(dates)) - datetime.fromisoformat(began)
    assert spent < timedelta(minutes=6)
    sentence = "two experiments and the rungs up to 07 took less than six minutes"
    assert sentence in page("recording.md")


def test_what_a_call_costs_the_host():
    table = pandas.read_csv(ROOT / "benchmarks" / "matmul_overhead.csv")

    def costs(*columns):
        times = table[list(columns)]
        return f"{times.min(axis=None):.0f} to {times.max(axis=None):.0f} µs"

    text = page("matmul.md")
    assert f"a call costs {costs('matmul_us')}, and {costs('matmul_out_us')} with `out=`" in text
    assert f"`cupy.matmul` costs {costs('cupy_us')} in the same loop" in text
