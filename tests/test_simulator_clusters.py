"""Clusters, and blocks that wait for one another: against an NVIDIA H200."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from recorded import record_clusters as recorder

from gemmlab import simulator

HERE = Path(__file__).parent
SETTINGS = {"arch": "sm_90a", "options": ("-std=c++17",)}


@lru_cache
def record() -> dict[str, np.ndarray]:
    with np.load(HERE / "recorded" / "clusters.npz") as found:
        return dict(found)


def tensor_map(box, array) -> simulator.TensorMap:
    return simulator.TensorMap(box.view(array), box.box, swizzle=box.swizzle, fill=box.fill)


def launch(case, check=False, **how):
    """(the arguments as the launch left them, the run)."""
    args, given = case.args(), []
    for arg in args:
        if isinstance(arg, tuple):
            given.append(tensor_map(*arg))
        elif isinstance(arg, recorder.Maps):
            given.append(simulator.TensorMaps([tensor_map(*one) for one in arg.maps]))
        else:
            given.append(arg)
    grid, block = ((*shape, 1, 1)[:3] for shape in (case.grid, case.block))
    run = simulator.launch(recorder.source(), case.entry, grid, block, given,
                           shared_bytes=case.shared_bytes, check=check, **SETTINGS, **how)  # fmt: skip
    return [arg[1] if isinstance(arg, tuple) else arg for arg in args], run


RECORDED = [name for name, case in recorder.cases().items() if f"{name} {case.seen[0]}" in record()]


@pytest.mark.parametrize("name", RECORDED)
def test_a_case_gives_what_the_hardware_gave(name):
    case = recorder.cases()[name]
    args, run = launch(case, check="sixteen" not in name)
    assert run.findings == []
    for number in case.seen:
        seen, wanted = args[number], record()[f"{name} {number}"]
        assert seen.dtype == wanted.dtype
        assert seen.tobytes() == wanted.tobytes(), np.argwhere(seen != wanted)[:5]
