"""Which rung gl.choose takes for a product: from records, by a rule, and what it says of it."""

from dataclasses import replace
from statistics import geometric_mean

import numpy as np
import pandas
import pytest
import sample_record
import train

import gemmlab as gl
from gemmlab import ladder
from gemmlab.kernel import prebuilt
from gemmlab.ladder import SIMULATED, IllegalSetting, Problem
from gemmlab.ladder.shapes import operations, ops
from gemmlab.lessons.mma_sync.rung import RUNG as MMA_SYNC
from gemmlab.products import choosing, estimate, model, trees
from gemmlab.records import best_by_shape, registry, tuning

LARGE, SMALL = ladder.find("10_register_banks"), ladder.find("05_thread_tile_2d")
EITHER_WAY = replace(
    LARGE, name="97_either", parameters=(*LARGE.parameters, *operations()), ops=ops
)
TOGETHER = replace(SMALL, name="98_together", batch=3)


@pytest.fixture(autouse=True)
def nothing_kept():
    """What other tests were told of records is not told here."""

    def forget():
        for kept in (
            choosing._choose, choosing._recorded, choosing.by_model, model.curves, trees.read,
        ):  # fmt: skip
            kept.cache_clear()

    forget()
    yield
    forget()


def row(rung, problem, tflops, share=1.0):
    settings = ladder.written(rung.defaults | ladder.stored_as(rung, problem.ops))
    date = "2026-11-21T10:00:00+00:00"
    return choosing.Row(rung, settings, problem, tflops, tflops / share, share, "NVIDIA Test", date)


@pytest.fixture
def records(monkeypatch):
    """Whatever rows a test appends."""
    rows = []
    monkeypatch.setattr(choosing, "recorded", lambda dtype="float32": tuple(rows))
    return rows


def chosen(*shape, dtype="float32", **how):
    choosing._choose.cache_clear()
    return gl.choose(Problem(*shape, **how), dtype)


# ---- from records --------------------------------------------------------------------------------


def test_the_fastest_at_a_recorded_shape_is_taken_with_its_share(records):
    here = Problem(512, 512, 512)
    records += [row(LARGE, here, 20.0, 0.9), row(SMALL, here, 25.0, 1.2)]
    choice = chosen(512, 512, 512)
    assert (choice.rung, choice.settings, choice.share) == (SMALL.name, SMALL.defaults, 1.2)
    assert "NVIDIA Test at this shape" in choice.why
    assert "120.0 % of cuBLAS, as recorded" in repr(choice)
    assert repr(choice).startswith("512×512×512 in float32: 05_thread_tile_2d with BM=")


def test_elsewhere_the_model_decides_and_no_share_is_promised(records):
    records += [row(LARGE, Problem(4096, 4096, 4096), 50.0), row(SMALL, Problem(64, 64, 64), 1.0)]
    other = chosen(2000, 3000, 5000)
    seconds, modelled = choosing.by_model(Problem(2000, 3000, 5000))
    assert (other, other.share) == (modelled, None) and seconds > 0
    assert "by the model" in other.why and "%" not in repr(other)


def test_operands_stored_transposed_go_to_whom_takes_them_or_are_transposed_before(
    records, monkeypatch
):
    monkeypatch.setattr(choosing, "by_model", lambda *_: None)
    records += [row(LARGE, Problem(64, 64, 64), 1.0)]
    choice = chosen(64, 64, 64, ops="TT")
    assert choice.rung == LARGE.name and choice.turned == "AB"
    assert "transposed before: A and B" in repr(choice)
    records += [row(EITHER_WAY, Problem(64, 64, 64), 0.9)]
    choice = chosen(64, 64, 64, ops="TN")  # it is slower, but needs no transposition before
    assert (choice.rung, choice.turned) == (EITHER_WAY.name, "")
    assert choice.settings["OP_A"] == 1 and choice.settings["OP_B"] == 0
    assert chosen(64, 64, 64).rung == LARGE.name


def test_a_batch_is_one_launch_or_one_for_each_product_whatever_is_faster(records, monkeypatch):
    monkeypatch.setattr(choosing, "by_model", lambda *_: None)
    records += [row(TOGETHER, Problem(64, 64, 64, 100), 10.0), row(LARGE, Problem(64, 64, 64), 1.0)]
    choice = chosen(64, 64, 64, batch=100)
    assert (choice.rung, choice.one_by_one) == (TOGETHER.name, False)
    assert chosen(64, 64, 64).rung == LARGE.name  # one product is no batch
    records += [row(LARGE, Problem(2048, 2048, 2048), 50.0)]
    choice = chosen(2048, 2048, 2048, batch=4)
    assert (choice.rung, choice.one_by_one) == (LARGE.name, True)
    assert "one after the other" in repr(choice)
    with pytest.raises(registry.NoRecord, match="is not recorded at 4 × 2048×2048×2048"):
        choosing.at(choice.problem)
    records += [row(TOGETHER, Problem(2048, 2048, 2048, 4), 10.0)]  # this very batch is recorded
    choice = chosen(2048, 2048, 2048, batch=4)
    assert (choice.rung, choosing.at(choice.problem)) == (TOGETHER.name, records[-1])


# ---- of sixteen bits -----------------------------------------------------------------------------


@pytest.fixture
def tables(monkeypatch):
    """What is recorded of rungs, by name, from rows that a test appends."""
    rows = []

    def tuned(name):
        mine = [row for row in rows if row.rung.name == name]
        if not mine:
            raise registry.NoRecord(name)
        return pandas.DataFrame(
            {
                "settings": row.settings, "way": "in turn", "tflops": row.tflops, "gpu": row.gpu,
                "cublas_tflops": row.cublas_tflops, "pct_cublas": 100 * row.share,
                "recorded": row.recorded, "batch": row.problem.batch, "ops": row.problem.ops,
                **dict(zip("mnk", row.problem.shape, strict=True)),
            }
            for row in mine
        )  # fmt: skip

    monkeypatch.setattr(best_by_shape, "tuned", tuned)
    monkeypatch.setattr(choosing, "by_model", lambda *_: None)
    return rows


def with_settings(row, **settings):
    return replace(row, settings=ladder.written(ladder.read_settings(row.settings) | settings))


def test_what_is_recorded_in_float16_alone_stands_for_bfloat16(tables):
    here = Problem(1024, 1024, 512)
    half = row(MMA_SYNC, here, 160.0, 0.9)
    tables += [
        with_settings(half, BM=64, BN=128, WM=32, WN=32, STAGES=3),
        with_settings(row(MMA_SYNC, here, 999.0), BIAS=1),
    ]
    choice = gl.choose(here, "float16")
    assert (choice.dtype, choice.settings["STAGES"], choice.share) == ("float16", 3, 0.9)
    assert choice.settings["BIAS"] == 0, "of what has no epilogue, none that has one is taken"
    choice = gl.choose(here, "bfloat16")
    assert (choice.dtype, choice.rung, choice.share) == ("bfloat16", MMA_SYNC.name, None)
    assert choice.settings["BM"] == 64 and choice.settings["DTYPE"] == 1
    assert choice.why.startswith(
        "the nearest settings of this type to the fastest that was recorded"
    )
    assert choice.why.endswith("in float16; not measured in this type")
    choosing._recorded.cache_clear()
    choosing._choose.cache_clear()
    tables.append(with_settings(row(MMA_SYNC, here, 150.0, 0.7), DTYPE=1))
    choice = gl.choose(here, "bfloat16")
    assert (choice.settings["BM"], choice.share) == (128, 0.7)


# ---- the records of this repository --------------------------------------------------------------


def test_every_recorded_shape_gets_what_was_fastest_there():
    rows = [row for row in choosing.recorded() if row.problem.ops == "NN"]
    assert len(rows) >= 8
    for row in rows:
        best = max((r for r in rows if r.problem == row.problem), key=lambda r: r.tflops)
        choice = gl.choose(row.problem)
        if "by the model" in choice.why:
            seconds = choosing.by_model(row.problem)[0]
            assert seconds < choosing.FAR_LESS * best.seconds(row.problem)
            continue
        assert choosing.at(row.problem) == best
        assert (choice.rung, ladder.written(choice.settings)) == (best.rung.name, best.settings)
        assert choice.share == best.share and best.gpu in choice.why


def test_a_slow_record_gives_way_to_the_model(records):
    """Tiles of 128×256 for 64 columns of C: 32 blocks for 132 SMs, as once measured."""
    thin = Problem(4096, 64, 4096)
    slow = row(ladder.find("18_persistent"), thin, 50.0)
    records.append(slow)
    choice = chosen(*thin.shape, dtype="float16")
    tile = ladder.find(choice.rung).tile(choice.settings)
    assert tile[0] * tile[1] < 128 * 128 and choice.share is None and "by the model" in choice.why
    records.append(replace(slow, tflops=500.0))
    assert "recorded on NVIDIA Test at this shape" in chosen(*thin.shape, dtype="float16").why


def test_larger_than_what_was_timed_the_model_contradicts_no_record(records):
    huge = Problem(16384, 16384, 16384)
    records.append(row(ladder.find("18_persistent"), huge, 10.0))
    assert chosen(*huge.shape, dtype="float16").share == 1.0


# ---- epilogues and float16 -----------------------------------------------------------------------


def test_epilogues_have_their_rungs():
    fused = gl.choose((1024, 1024, 512), fused=True)
    assert fused.rung == "11_fused_epilogue" and "fused into this rung alone" in fused.why
    for dtype in ("float16", "bfloat16"):
        half = gl.choose((1024, 1024, 512), dtype, fused=True)
        assert (half.rung, half.dtype, half.settings["BIAS"]) == (MMA_SYNC.name, dtype, 1)
        assert half.settings["BM"] < 128, "it has settings for the shape"
    assert gl.choose((64, 64, 64, 5), "float16").one_by_one
    assert gl.choose(Problem(64, 64, 64, ops="TN"), fused=True).turned == "A"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((5, 7),), r"it must be \(M, N, K\)"),
        (((5, 7, -1),), "k is -1; it must be a whole number"),
        (((5, 7, 3), "float64"), "dtype is 'float64'; it must be one of float32, float16, bfl"),
    ],
)
def test_an_invalid_problem_is_refused(arguments, message):
    with pytest.raises(IllegalSetting, match=message):
        gl.choose(*arguments)


# ---- by the rule ---------------------------------------------------------------------------------


def test_a_gpu_without_a_record_of_its_own_goes_by_the_model_of_another(monkeypatch):
    monkeypatch.delenv("GEMMLAB_RECORDS", raising=False)
    for module in (choosing, model):
        monkeypatch.setattr(module, "gpu", lambda: replace(sample_record.GPU, sm_count=40))
    monkeypatch.setattr(model, "greatest_rates", lambda: model.RATES)
    assert choosing.recorded() == ()
    choice = gl.choose((4096, 4096, 4096))
    assert "by the model" in choice.why and choice.share is None
    monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-h200")
    choosing._choose.cache_clear()
    choosing._recorded.cache_clear()
    assert "recorded on NVIDIA H200" in gl.choose((4096, 4096, 4096)).why


def test_another_gpu_pays_for_bytes_and_cycles_by_its_own_rates(monkeypatch):
    of_h200 = model.curves("float32", "sm_90a")[0].coefficients
    hertz, bytes_per_s = model.RATES
    monkeypatch.setattr(model, "gpu", lambda: sample_record.GPU)
    monkeypatch.setattr(model, "greatest_rates", lambda: (hertz / 2, bytes_per_s / 3))
    model.curves.cache_clear()
    times = zip(model.curves("float32", "sm_90a")[0].coefficients, of_h200, strict=True)
    slower = dict(zip(model.COSTS, (here / there for here, there in times), strict=True))
    expected = {cost: {"launch": 1, "memory_mb": 3}.get(cost, 2) for cost in model.COSTS}
    assert slower == pytest.approx(expected)


def test_trees_are_read_as_they_were_fitted(monkeypatch):
    monkeypatch.setitem(train.BOOSTING, "max_iter", 5)
    names, random = ["K", "M", "20_direct"], np.random.default_rng(0)
    given = random.integers(-1, 9, (500, 3)).astype(float)
    error = given[:, 0] * (given[:, 1] > 3) / 9 + 0.1 * random.standard_normal(500)
    boosted = train.boosted_trees(given, error, np.ones(500))
    read = trees.of_table(pandas.DataFrame(train.nodes_of("float32", boosted, names)))
    kernels = [dict(zip(names, row, strict=True)) for row in given]
    assert read.errors(kernels) == pytest.approx(np.exp(boosted.predict(given)))
    del kernels[0]["M"]  # as a kernel that has no such setting
    assert read.errors(kernels[:1]) == read.errors([kernels[0] | {"M": trees.ABSENT}])


def test_large_products_go_to_the_fp32_summit_where_it_runs(monkeypatch):
    large = Problem(8000, 8000, 8000)
    assert gl.choose(large).rung == "22_fp32_summit"
    monkeypatch.setattr(choosing, "arch_here", lambda: "sm_80")
    choosing._choose.cache_clear()
    choosing.by_model.cache_clear()
    assert gl.choose(large).rung != "22_fp32_summit"


def test_among_swept_settings_the_rule_takes_a_fast_one():
    """It loses a few percent to the fastest, and at no shape a fifth."""
    rungs = [ladder.find(choosing.TOGETHER)]
    losses = []
    for shape in dict.fromkeys(shape for rung in rungs for shape in tuning.shapes_of(rung)):
        estimates = {}
        for rung in rungs:
            if shape in tuning.shapes_of(rung):
                for row in tuning.at(tuning.kept(rung.name), shape).to_dict("records"):
                    settings = {name: row[name] for name in rung.defaults}
                    estimated = estimate.seconds(rung, settings, Problem(*shape), SIMULATED)
                    estimates[row["time_ms"]] = estimated
        losses.append(min(estimates, key=estimates.get) / min(estimates))
    assert len(losses) >= 4 and max(losses) < 1.2
    assert geometric_mean(losses) < 1.05


def test_a_gpu_before_sm_80_multiplies_float16_by_14_and_bfloat16_not(monkeypatch):
    monkeypatch.setattr(choosing, "arch_here", lambda: "sm_75")
    assert gl.choose((512, 512, 512), "float16").rung == "14_wmma"
    with pytest.raises(IllegalSetting, match="15_mma_sync needs sm_80 or newer, this is sm_75"):
        gl.choose((512, 512, 512), "bfloat16")


SHAPES = ((1, 1, 1), (5, 7000, 40), (33, 65, 129), (64, 4096, 4096), (1000, 1001, 1002))


@pytest.mark.parametrize("dtype", choosing.TYPES)
@pytest.mark.parametrize("ops", ["NN", "TT"])
def test_without_a_compiler_it_takes_what_comes_compiled(monkeypatch, dtype, ops):
    monkeypatch.setattr(choosing, "_compiles", lambda: False)
    recorded = sorted({row.problem.shape for row in choosing.recorded(dtype)})
    for shape in (*SHAPES, *recorded[::5]):
        for batch in (1, 3):
            for fused in (False, True) if (ops, batch) == ("NN", 1) else (False,):
                choice = gl.choose(Problem(*shape, batch, ops), dtype, fused)
                assert prebuilt.ships(ladder.find(choice.rung), choice.settings), choice
