"""What the driver is asked for: numbers that a stream writes or waits for, where memory begins."""

import pytest

from gemmlab.lessons.multi_gpu.gpus import dma_engines as stream_values
from gemmlab.lessons.multi_gpu.gpus.dma_engines import StreamValueError


class Driver:
    """Takes down what it is asked; `code`: what it answers."""

    code = 0

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        def call(*given):
            self.asked.append((name, *(getattr(one, "value", one) for one in given)))
            return self.code

        return call

    def cuMemGetAddressRange_v2(self, base, size, address):
        base._obj.value = address.value // 512 * 512
        return self.code


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr(stream_values, "_driver", lambda: made)
    return made


def test_streams_write_behind_what_they_did_and_wait_for_no_less(driver):
    stream_values.write_value(7, 2**40, 3)
    stream_values.wait_for_value(7, 2**40, 3)
    behind, at_least = 0, 0  # CU_STREAM_WRITE_VALUE_DEFAULT, CU_STREAM_WAIT_VALUE_GEQ
    assert driver.asked == [
        ("cuStreamWriteValue32_v2", 7, 2**40, 3, behind),
        ("cuStreamWaitValue32_v2", 7, 2**40, 3, at_least),
    ]


def test_an_allocation_begins_before_what_lies_in_it(driver):
    assert stream_values.allocation_of(5 * 512 + 8) == 5 * 512


def test_what_the_driver_refuses_is_named(driver):
    driver.code = 801
    for call in (
        lambda: stream_values.wait_for_value(7, 8, 1),
        lambda: stream_values.allocation_of(8),
    ):
        with pytest.raises(StreamValueError, match=r"cu\w+_v2 failed \(CUDA error 801\)"):
            call()
