"""The simulator against itself: six ways to run a kernel leave the same bits, and find nothing.

Plain, counted and checked, each with numba's machine code and without. Loads and arithmetic take
other paths in each, and a mistake in one of them is silent, where its result alone is looked at.
"""

from collections.abc import Callable

import numpy as np
import pytest

import record_clusters
import test_clusters as clusters
import test_tma as tma
from ptxsim.arithmetic import compiled
from public_kernels import PUBLIC, integers, to_numbers
from sample_kernels import SAMPLES, Sample, matches
from whole_kernels import KERNELS, OTHERS, TENSOR_PRODUCTS, Other, Product

f4 = np.float32
WAYS = [({flag: True} if flag else {}, worth_it)
        for worth_it in (float("inf"), 0) for flag in ("", "count", "check")]  # fmt: skip
FOUND = {"returns": {"missed barrier"}}  # in a kernel that is right all the same
MANY = 64  # blocks: of those that wait for one another, hundreds are run elsewhere


def of_file(name: str, entry: str, grid, block, args: Callable[[], list], options=()) -> Sample:
    """A kernel of ptxsim/tests/kernels/ whose results other tests look at."""
    text = (KERNELS / name).read_text(encoding="utf-8")
    return Sample(text, grid, block, args, lambda args: {}, entry=entry, options=options)


def matrices(*shapes):
    return [integers(20 + i, *shape) / f4(7) for i, shape in enumerate(shapes)]


FILES = {
    "batched": of_file("batched.cu", "batched", (3, 2, 2), (16, 16, 1), lambda: [
        *matrices((2, 19, 21), (2, 35, 21), (2, 19, 35)), 19, 35, 21, 399, 735, 665, 1.5, 0.5]),
    "parts of K": of_file("split_k.cu", "parts_of_k", (3, 2, 4), (16, 16, 1), lambda: [
        *matrices((19, 21), (21, 35), (4, 19, 35)), 19, 35, 21]),
    "add parts": of_file("split_k.cu", "add_parts", (3, 1, 1), (256, 1, 1), lambda: [
        *matrices((4, 19, 35), (19, 35)), 19, 35, 1.5, 0.5]),
    "strided": of_file("general.cu", "strided", (3, 2, 2), (16, 16, 1), lambda: [
        *matrices((3, 21, 24), (3, 35, 21), (3, 19, 40)), 19, 35, 21, 24, 21, 40,
        504, 735, 760, 3, 1.5, 0.5], ("-DOP_A=1", "-DOP_B=1")),
    "scaled eight bits": of_file("scaled_eight_bits.cu", "scaled", (3, 2, 1), (16, 16, 1), lambda: [
        *(integers(30 + i, *shape, least=0, most=100, dtype=np.uint8)
          for i, shape in enumerate([(19, 21), (21, 35)])),
        *matrices((19, 35), (19,), (35,)), 19, 35, 21, 1.5, 0.5]),
}  # fmt: skip


def of_product(entry: Product):
    def run(**how):
        C, done = entry.launch(*entry.fitting(17, 33, 21), 0.5, 2.0, **how)
        return [C], done

    return run


def of_other(entry: Other):
    def run(**how):
        got, _, done = entry.launch(100, **how)
        return [got], done

    return run


def of_cluster(case: record_clusters.Case):
    return lambda **how: clusters.launch(case, **how)


def of_maps(swizzle: str):
    def run(**how):
        C, _, done = tma.product(swizzle, 37, 45, 50, **how)
        return [C], done

    return run


CASES: dict[str, Callable] = {
    **{name: sample.run for name, sample in (PUBLIC | SAMPLES | FILES).items()},
    **{entry.name: of_product(entry) for entry in TENSOR_PRODUCTS},
    **{entry.name: of_other(entry) for entry in OTHERS},
    **{name: of_cluster(case) for name, case in record_clusters.cases().items()
       if f" {case.entry}(" in record_clusters.KERNELS.read_text(encoding="utf-8")
       and np.prod(case.grid) < MANY},
    **{f"boxes, swizzle {swizzle}": of_maps(swizzle) for swizzle in tma.WIDTHS},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_way_to_run_a_kernel_leaves_the_same_bits_and_finds_nothing(name, monkeypatch):
    assert_agree(CASES[name], monkeypatch, FOUND.get(name, set()))


def assert_agree(run_once: Callable, monkeypatch, kinds_found=frozenset()) -> None:
    """All six ways leave the same bits. `kinds_found`: of findings, where there are checks."""
    first = None
    for how, worth_it in WAYS:
        monkeypatch.setattr(compiled, "WORTH_IT", worth_it)
        args, run = run_once(**how)
        expected = kinds_found if "check" in how else set()
        assert {finding.kind for finding in run.findings} == expected
        left = [arg.tobytes() for arg in args if isinstance(arg, np.ndarray)]
        first = left if first is None else first
        assert [a == b for a, b in zip(left, first, strict=True)] == [True] * len(left), how


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_kernel_is_right(name):
    expected = PUBLIC[name].expected(PUBLIC[name].args())
    args, _ = PUBLIC[name].run()
    for i, value in expected.items():
        assert matches(to_numbers(args[i]) if isinstance(value, tuple) else args[i], value)
