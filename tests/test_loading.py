"""Loading a rung for a shape: the fastest recorded settings that run, and clear refusals."""

import subprocess
import sys

import pytest

import gemmlab as gl
from gemmlab import ladder, loading
from gemmlab.ladder import IllegalSetting
from gemmlab.records import tuning

NAME = "10_register_banks"
RUNG = ladder.find(NAME)


def test_completion_offers_names_that_are_loaded_lazily():
    """In a new process, for what was used once is there."""
    program = (
        "import sys, gemmlab as gl; slow = {'cupy', 'pandas', 'matplotlib'};"
        "print(set(gl.__all__) <= set(dir(gl)), slow.isdisjoint(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]
    for name in gl.__all__:
        assert getattr(gl, name) is not None


@pytest.mark.parametrize("shape", tuning.shapes_of(RUNG))
def test_at_a_recorded_shape_nothing_recorded_is_faster(shape):
    kernel = gl.load(NAME, shape=shape)
    assert (
        tuning.of(kernel, shape)["time_ms"]
        == tuning.at(tuning.recorded(NAME), shape)["time_ms"].min()
    )


def test_a_shape_and_parameters_together_are_refused():
    with pytest.raises(IllegalSetting, match=r"give a shape or parameters, not both; .*BM=64"):
        gl.load(NAME, shape=(64, 64, 64), BM=64)


@pytest.mark.parametrize("shape", [(1, 2), (-1, 5, 5), (2.5, 1, 1), (True, 1, 1), ("8", 8, 8)])
def test_an_invalid_shape_is_refused(shape):
    with pytest.raises(IllegalSetting, match="must be"):
        gl.load(NAME, shape=shape)


FUSED = "11_fused_epilogue"


@pytest.mark.parametrize("shape", [(8192, 8192, 64), (4096, 4096, 4096), (1024, 1024, 64)])
@pytest.mark.parametrize("activation", [0, 3])
def test_untuned_parameters_can_be_given_with_a_shape(shape, activation):
    """The tile of the sweep, whatever activation it was swept with."""
    best = tuning.best(tuning.recorded(FUSED), shape)
    tile = {name: int(best[name]) for name in ladder.find(FUSED).defaults}
    kernel = gl.load(FUSED, shape=shape, ACTIVATION=activation)
    assert kernel.settings == tile | {"ACTIVATION": activation}


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (FUSED, {"ACTIVATE": 2}, "11_fused_epilogue has no parameter ACTIVATE; it has BM"),
        (FUSED, {"ACTIVATION": 4}, "ACTIVATION=4 is not legal, the values are 0, 1, 2, 3"),
        (NAME, {"ACTIVATION": 1}, "10_register_banks has no parameter ACTIVATION"),
    ],
)
@pytest.mark.parametrize("shape", [{}, {"shape": (64, 64, 64)}])
def test_a_parameter_that_is_not_there_is_refused_with_and_without_a_shape(
    name, settings, message, shape
):
    with pytest.raises(IllegalSetting, match=message):
        gl.load(name, **shape, **settings)


def test_a_replaced_default_is_reported_once(capsys):
    loading._tell.cache_clear()
    first = gl.load(NAME, arch="sm_86")
    assert first.note == (
        "the nearest to the default that runs on sm_86; "
        "the default needs 148992 bytes of shared memory per block"
    )
    assert capsys.readouterr().err == (
        f"{NAME} with {ladder.listed(first.settings)}: {first.note}.\n"
    )
    assert gl.load(NAME, arch="sm_86").note == first.note and capsys.readouterr().err == ""
    with pytest.raises(IllegalSetting, match="needs sm_80 or newer, this is sm_75"):
        gl.load(NAME, arch="sm_75")


def test_a_shape_is_answered_with_where_its_settings_come_from():
    here = gl.load(NAME, shape=(1000, 1000, 500))
    assert here.note == "the fastest in the sweep recorded on NVIDIA H200 at 1024×1024×512"
    there = gl.load(NAME, arch="sm_86", shape=(4096, 4096, 4096))
    assert there.note.endswith("at 4096×4096×4096, of those that run on sm_86")
