"""Rung 19 in the simulator: every kind of scales, type and interval, and what is left out."""

import numpy as np
import pytest
from corpus import self_contained

from gemmlab import ladder
from gemmlab.kernel import bounds, verify
from gemmlab.kernel.arguments import ArgumentError
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import random_values
from gemmlab.ladder import IllegalSetting, Problem
from gemmlab.ladder.precision import E4M3, OF_BLOCKS, OF_ROWS
from gemmlab.lessons.fp8.rung import RUNG as FP8

SMALL = {"BM": 64, "BN": 64, "STAGES": 2}
f4 = np.float32


def kernel(source=None, **settings):
    """For a GPU of so few SMs that a block computes several tiles."""
    chosen = ladder.settings_for(FP8, settings)
    return Kernel(FP8, chosen, "sm_90a", source or FP8.path).scheduled_for(2)


@pytest.mark.parametrize(
    "settings",
    (
        {}, {"SCALES": 1, "CLUSTER": 2, "OUT32": 1}, {"SCALES": 2, "CLUSTER": 2},
        {"SCALES": 2, **SMALL, "DTYPE": 2, "OUT32": 1}, {"DTYPE": 1, "PROMOTE": 256},
        {**SMALL, "PROMOTE": 512, "STAGES": 8},
        {"PROMOTE": 0, "BN": 256, "STAGES": 4, "CLUSTER": 2, "SCALES": 1},
    ),
    ids=ladder.written,
)  # fmt: skip
def test_every_form_is_right_at_all_widths(settings):
    """Rows of whole 16 bytes by tensor map, with tails; others, and K of 0, without."""
    fp8_kernel = kernel(**settings)
    for shape, *factors in (
        ((264, 264, 400), 1.0, 0.0), ((200, 72, 1040), 0.5, 2.0), ((1, 264, 16), 1.0, 0.0),
        ((40, 77, 99), 0.5, 2.0), ((9, 8, 0), 0.5, 2.0),
    ):  # fmt: skip
        case = verify.check(fp8_kernel, *shape, *factors, seed=3)
        assert case.passed, case


@pytest.mark.parametrize(
    "settings", ({}, {"SCALES": 2, "CLUSTER": 2, "STAGES": 2}, {**SMALL, "PROMOTE": 0}),
    ids=ladder.written,
)  # fmt: skip
def test_the_checks_find_nothing_in_the_kernel(settings):
    assert kernel(**settings).check().passed


def test_sums_that_need_few_bits_are_exact():
    """Small whole numbers, and scales that are powers of two: no bit is lost anywhere."""
    for kind, settings in ((OF_BLOCKS, {"SCALES": 2}), (OF_ROWS, {"SCALES": 1})):
        fp8_kernel = kernel(OUT32=1, **SMALL, **settings)
        problem = fp8_kernel.problem(136, 264, 656)
        A, B = (
            np.floor(3 * random_values(lines * 656, seed)).reshape(lines, 656)
            for seed, lines in ((1, 136), (2, 264))
        )
        scale_a, scale_b = (
            f4(2) ** np.floor(3 * random_values(int(np.prod(shape)), 3)).reshape(shape).astype(f4)
            for shape in (kind.shape_of_a(problem), kind.shape_of_b(problem))
        )
        C = fp8_kernel(E4M3.encode(A, "uint8"), E4M3.encode(B, "uint8"), scales=(scale_a, scale_b))
        wide_a = A * kind.spread(scale_a, kind.rows, 136, 656)
        wide_b = B * kind.spread(scale_b, kind.columns, 264, 656)
        assert (wide_a @ wide_b.T == C).all()


def test_nan_stays_nan_and_448_stays_finite():
    A, B = (np.full((64, 128), 0x7E, np.uint8) for _ in range(2))  # 448 each
    A[3, 5] = 0x7F
    fp8_kernel, scale = kernel(OUT32=1, **SMALL), np.ones(1, f4)
    C = fp8_kernel(A, B, scales=(scale, scale))
    assert np.isnan(C[3]).all() and (np.delete(C, 3, 0) == 128 * 448.0**2).all()


# ---- what sums lose ------------------------------------------------------------------------------


def test_promoted_sums_are_better_and_within_a_smaller_bound():
    problem, errors, mean_bounds = Problem(64, 64, 2048, 1, "NT"), {}, {}
    for interval in (0, 512, 128):
        fp8_kernel = kernel(**SMALL | {"STAGES": 8}, PROMOTE=interval, OUT32=1)
        given = fp8_kernel.operands(problem, seed=5)
        A, B, _ = given.numbers()
        C = fp8_kernel(given.A, given.B, scales=(given.scale_a, given.scale_b))
        errors[interval] = abs(C - A @ B).mean()
        bound = bounds.lost(A, B, interval, given.least())
        assert (abs(C - A @ B) <= 1.001 * bound + 1e-3).all()
        mean_bounds[interval] = bound.mean()
    assert errors[0] > 2 * errors[512] / 1.5 > 2 * errors[128] / 1.5
    assert mean_bounds[0] > mean_bounds[512] > mean_bounds[128]


def test_what_subnormal_factors_lose_is_within_the_bound():
    """The smallest numbers count with the exponent of the smallest normal one."""
    fp8_kernel = kernel(OUT32=1, **SMALL)
    bits = (random_values(2 * 64 * 256, 7).view(np.uint32) >> 9).astype(np.uint8)
    A, B = (bits & 0x87).reshape(2, 64, 256)  # exponents of 0
    B = np.where(np.arange(256) % 3 == 0, 0x7E, B).astype(np.uint8)
    scale = np.ones(1, f4)
    C = fp8_kernel(A, B, scales=(scale, scale))
    wide_a, wide_b = E4M3.decode(A), E4M3.decode(B).T
    lost = bounds.lost(wide_a, wide_b, 128, (E4M3.smallest_normal, E4M3.smallest_normal))
    assert (abs(C - wide_a @ wide_b) <= lost + 1e-6).all()


# ---- scales and settings -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, message",
    (
        (lambda a, b: None, "needs scales, a float32 array for A and one for B: one for each"),
        (lambda a, b: (a[:4], b), r"scale_a is \(4, 2\); these matrices need \(8, 2\)"),
        (lambda a, b: (a, b.ravel()), "scale_b has 1 axes: .* takes 2: one for each"),
        (lambda a, b: (a.astype(np.float64), b), "scale_a is float64"),
    ),
)  # fmt: skip
def test_bad_scales_are_refused(change, message):
    fp8_kernel = kernel(SCALES=2, **SMALL)
    given = fp8_kernel.operands(fp8_kernel.problem(8, 16, 256), seed=1)
    with pytest.raises(ArgumentError, match=message):
        fp8_kernel(given.A, given.B, scales=change(given.scale_a, given.scale_b))


def test_settings_that_do_not_go_together_are_refused():
    for settings, message in (
        ({"BN": 256, "STAGES": 4}, "two sets of sums of 256 columns"),
        ({"SCALES": 2, "PROMOTE": 0}, "another scale after every 128 of K"),
        ({"PROMOTE": 512}, "STAGES from 8 on"),
        ({"BN": 32}, "less than the 64 columns of C"),
        ({"STAGES": 8}, "bytes of shared memory"),
    ):
        with pytest.raises(IllegalSetting, match=message):
            kernel(**settings)


# ---- planted mistakes ----------------------------------------------------------------------------

MISTAKES = {
    "a set added while its products go on": (
        "wgmma_wait<1>();                 // partial[0]", "wgmma_wait<2>(); //",
        "sums in flight",
    ),
    "sums not fenced": ("                    wgmma_fence();\n", "", "missing wgmma.fence"),
    "nobody waits for a full stage": (
        "mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);\n"
        "                    wgmma_fence",
        "wgmma_fence",
        "read of a copy in flight",
    ),
    "nobody waits for an empty stage": (
        "mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);\n"
        "                    mbarrier_arrive_expect",
        "mbarrier_arrive_expect",
        "write of a copy in flight",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name):
    old, new, kind = MISTAKES[name]
    text = self_contained(FP8.path.read_text(encoding="utf-8"))
    assert text.count(old) == 1
    report = kernel(text.replace(old, new), **SMALL, GROUP=1).check()
    assert kind in {finding.kind for case in report.cases for finding in case.findings}


@pytest.mark.parametrize(
    "old, new",
    (
        ("promote(totals, accumulators, interval_scales);\n            };", "};"),
        ("* scales.k_tiles\n                       + interval)", "* scales.k_tiles)"),
        ("? second : first", "? first : second"),
    ),
)
def test_a_wrong_sum_or_scale_does_not_pass(old, new):
    text = self_contained(FP8.path.read_text(encoding="utf-8"))
    assert text.count(old) == 1
    wrong = kernel(text.replace(old, new), SCALES=2, **SMALL)
    assert not verify.check(wrong, 136, 136, 272, 1.0, 0.0, seed=1).passed
