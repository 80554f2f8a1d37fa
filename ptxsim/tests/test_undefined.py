"""What PTX leaves open: the simulator gives what an NVIDIA H200 gave, and says that it is open."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ptxsim
import record_undefined as recorder

u4 = np.uint32
BLOCKS = 3  # of a store; the recorded ones have thousands
DIVERGENT = "divergent warp"


@pytest.fixture(scope="module")
def recorded():
    with np.load(Path(__file__).parent / "recorded" / "undefined.npz") as file:
        return dict(file)


def launch(entry: str, grid: int, block: int, args, shared_bytes: int = 0):
    return ptxsim.launch(
        recorder.SOURCE, entry, (grid, 1, 1), (block, 1, 1), args, arch="sm_90a",
        options=("-std=c++17",), shared_bytes=shared_bytes, check=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", recorder.stores())
def test_a_bulk_store_that_nobody_waits_for_is_written_as_on_hardware(name, recorded):
    case = replace(recorder.stores()[name], blocks=BLOCKS)
    out = np.zeros(BLOCKS * case.words, u4)
    args = [out, case.words, case.pieces, 5, int(case.commit)]
    if case.entry == "store_box":
        box = recorder.boxes(case).box
        args.insert(0, ptxsim.TensorMap(out.reshape(-1, box[1]), box))
    run = launch(case.entry, BLOCKS, 128, args, 4 * case.words)
    assert [finding.kind for finding in run.findings] == ["bulk store not waited for"]
    expected = np.arange(len(out), dtype=u4) * u4(2654435761) + u4(5)
    assert np.count_nonzero(out != expected) == recorded[f"stores {name}"].max() == 0


@pytest.mark.parametrize(("kind", "name"), recorder.of_warps())
def test_masks_that_do_not_fit_give_what_the_hardware_gave_or_are_found(kind, name, recorded):
    executing, members = recorder.masks()[kind]
    out, truth = (np.zeros((recorder.TRIALS, 32), u4) for _ in range(2))
    given = [*recorder.operands().values(), executing, members, out, truth]
    run = launch(recorder.entry(kind, name), recorder.TRIALS, 32, given)
    is_found = DIVERGENT in {finding.kind for finding in run.findings}
    assert is_found == (kind not in ("parts", "exited"))
    if f"error {kind} {name}" in recorded:
        return
    assert np.array_equal(out, recorded[f"result {kind} {name}"])
    assert np.array_equal(truth, recorded[f"truth {kind} {name}"])
