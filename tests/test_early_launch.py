"""What is handed to the driver for a launch that may begin early, with a driver played here."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from gemmlab.cuda import driver as of_cuda

ADDRESS = 0x7F0012345600  # of an array on a GPU
MAP = np.arange(128, dtype=np.uint8).view("V128")
OTHER_MAP = np.arange(128, dtype=np.uint8)[::-1].copy().view("V128")


@pytest.fixture
def driver(monkeypatch):
    """Its cuLaunchKernelEx, which keeps what it is called with and returns `code`."""
    seen = SimpleNamespace(code=0, calls=[])

    def launch(config, kernel, pointers, extra):
        seen.calls.append((config._obj, kernel.value, list(pointers), extra))
        return seen.code

    api = SimpleNamespace(cuLaunchKernelEx=launch)
    monkeypatch.setattr(of_cuda, "driver", lambda: api)
    return seen


def prepared(early=True):
    function = SimpleNamespace(kernel=SimpleNamespace(ptr=4321))
    args = (MAP, np.uint64(ADDRESS), np.int32(-7), np.float32(0.5), np.uint64(0))
    return of_cuda.PackedLaunch(function, (6, 2, 1), (384, 1, 1), args, 229_440, early)


def test_the_launch_is_as_said_and_may_overlap(driver):
    prepared()(99)
    ((config, kernel, _, extra),) = driver.calls
    assert (kernel, extra, config.stream) == (4321, None, 99)
    assert (list(config.grid), list(config.block)) == ([6, 2, 1], [384, 1, 1])
    assert config.shared_bytes == 229_440
    attribute = config.attributes[0]
    assert (config.attribute_count, attribute.id, attribute.value) == (1, 6, 1)


def test_arguments_are_passed_by_value_and_arrays_by_address(driver):
    prepared()(99)
    ((_, _, pointers, _),) = driver.calls
    sizes = (128, 8, 4, 4, 8)
    given = [ctypes.string_at(address, size) for address, size in zip(pointers, sizes, strict=True)]
    assert given[0] == bytes(range(128))
    assert int.from_bytes(given[1], "little") == ADDRESS
    assert np.frombuffer(given[2], np.int32) == -7 and np.frombuffer(given[3], np.float32) == 0.5
    assert given[4] == bytes(8)


def test_a_launch_that_must_not_begin_early_has_no_attribute(driver):
    prepared(early=False)(99)
    assert driver.calls[0][0].attribute_count == 0


def test_arguments_are_exchanged_one_by_one(driver):
    run = prepared()
    run.pass_instead(0, OTHER_MAP, OTHER_MAP.ctypes.data)
    run.cells[1].value, run.cells[3].value = 77, -2.5
    run(99)
    pointers = driver.calls[0][2]
    assert ctypes.string_at(pointers[0], 128) == OTHER_MAP.tobytes()
    assert int.from_bytes(ctypes.string_at(pointers[1], 8), "little") == 77
    assert np.frombuffer(ctypes.string_at(pointers[3], 4), np.float32) == -2.5
    assert np.frombuffer(ctypes.string_at(pointers[2], 4), np.int32) == -7
