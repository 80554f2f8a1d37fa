"""Mistakes of published kernels: each is found at its line, and nothing where it is mended."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import ptxsim
from ptxsim.__main__ import FOUND, main

SOURCE = Path(__file__).parent / "kernels" / "shipped.cu"
f4 = np.float32
ONES_A, ONES_B = np.ones((64, 16), np.float16), np.ones((8, 16), np.float16)
X = np.arange(256, dtype=f4)


@dataclass(frozen=True)
class Shipped:
    """A kernel, its launch, what it computes where it is right; the finding, and a line's part."""

    kernel: str
    grid: int
    block: int
    args: list
    result: int  # which argument
    expected: np.ndarray
    kind: str
    at: str
    options: tuple[str, ...] = ()
    check: bool | str = True


def out(size):
    return np.full(size, np.nan, f4)


MULTIPLIED = "multiply(d, shared_address(a"
CASES = {
    "CuTe's tutorial wgmma_sm90": Shipped(
        "own_copies", 1, 128, [ONES_A, ONES_B, out(512)], 2, np.full(512, 16, f4),
        "read-after-write race", MULTIPLIED,
    ),
    "the same, the other proxy": Shipped(
        "own_copies", 1, 128, [ONES_A, ONES_B, out(512)], 2, np.full(512, 16, f4),
        "async-proxy race", MULTIPLIED,
    ),
    "CUTracer 106, a wait missing": Shipped(
        "waited_too_late", 1, 128, [ONES_A, ONES_B, out(512)], 2, np.full(512, 16, f4),
        "read-after-write race", MULTIPLIED,
    ),
    "tilelang 2613": Shipped(
        "overwritten", 1, 384, [ONES_A, ONES_B, out(1024), 3], 2, np.full(1024, 48, f4),
        "write-after-read race", "copy(shared_address(b)",
    ),
    "FlashKDA 24, a store": Shipped(
        "stored_unfenced", 1, 128, [out(128)], 0, X[:128], "async-proxy race", ":: \"l\"(out)",
    ),
    "FlashKDA 24, an mbarrier": Shipped(
        "init_unfenced", 1, 128, [X[:128], out(128)], 1, X[:128], "mbarrier not fenced", "copy(",
    ),
    "DeepEP 621": Shipped(
        "polled_unfenced", 2, 128, [out(128), np.zeros(1, np.int32), out(128)], 2, X[:128],
        "async-proxy race", "copy(shared_address(buffer), data",
    ),
    "DeepEP 642": Shipped(
        "refilled", 1, 160, [X.repeat(4), out(128), 8], 1, X.repeat(4).reshape(8, 128).sum(axis=0),
        "async-proxy race", "copy(shared_address(stage[s]), x + step", check="strict",
    ),
    "DeepGEMM 389": Shipped(
        "refilled_by_its_reader", 1, 32, [X, out(32), 8], 1, X.reshape(8, 32).sum(axis=0),
        "async-proxy race", "copy(shared_address(stage[s]), x + (row", check="strict",
    ),
    "flashinfer 2996": Shipped(
        "some_warps", 1, 384, [out(384)], 0, np.r_[X[127::-1], X], "divergent barrier",
        "__syncthreads();",
    ),
    "DeepGEMM 429": Shipped(
        "unequal_depths", 2, 32, [np.array([2, 3], np.int32), out(64)], 1,
        np.repeat([1, 3], 32).astype(f4), "deadlock", "wait(shared_address(&empty[step % 2])",
    ),
    "DeepGEMM 343": Shipped(
        "map_in_use", 1, 32,
        [ptxsim.TensorMap(X[:128].reshape(4, 32).copy(), (4, 32)), np.zeros(128, np.uint8),
         np.arange(512, dtype=f4), out(256), 2], 3, X, "write to a tensor map in use",
        ":: \"l\"(changed), \"r\"(shared_address(&local))",
    ),
}  # fmt: skip


def launched(case: Shipped, *options: str, check: bool | str = "strict"):
    args = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in case.args]
    run = ptxsim.launch(
        SOURCE, case.kernel, case.grid, case.block, args, options=options, check=check
    )
    return run, args[case.result]


@pytest.mark.parametrize("name", CASES)
def test_the_mistake_is_found_at_its_line(name):
    case = CASES[name]
    run, _ = launched(case, *case.options, check=case.check)
    lines = SOURCE.read_text("utf-8").splitlines()
    places = [(f.line, f.header) for f in run.findings if f.kind == case.kind]
    # Of what an inlined function does, the line that calls it.
    called = [int(header.rpartition(" ")[2]) if header else line for line, header in places]
    assert any(case.at in lines[line - 1] for line in called), run.findings


@pytest.mark.parametrize("name", CASES)
def test_the_mended_kernel_is_right_and_without_findings(name):
    run, result = launched(CASES[name], "-DMENDED")
    assert run.findings == []
    np.testing.assert_array_equal(result, CASES[name].expected)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.check == "strict"])
def test_what_most_kernels_do_without_is_found_by_strict_alone(name):
    run, result = launched(CASES[name], check=True)
    assert run.findings == []
    np.testing.assert_array_equal(result, CASES[name].expected)


def test_the_fixture_and_the_command_line_are_strict_where_they_are_asked_to(launch_kernel, capsys):
    name, args = "refilled_by_its_reader", [X, out(32), 8]
    launch_kernel(SOURCE, name, 1, 32, args)
    with pytest.raises(pytest.fail.Exception, match=r"async-proxy race .* was read by thread"):
        launch_kernel(SOURCE, name, 1, 32, args, check="strict")
    given = ["check", str(SOURCE), "--kernel", name, "--grid", "1", "--block", "32"]
    for arg in ("float32[256]", "float32[32]", "8"):
        given += ["--arg", arg]
    assert main(given) == 0
    assert main([*given, "--strict"]) == FOUND
    assert "async-proxy race" in capsys.readouterr().out
