"""The timing examples of notebook 00: as recorded, and taken on a GPU."""

import math
import statistics

import pytest

from gemmlab.cuda.device import gpu, why_no_gpu
from gemmlab.lessons.ceilings import pitfalls

needs_gpu = pytest.mark.skipif(
    gpu() is None, reason=f"needs a GPU: {why_no_gpu() or 'there is one'}"
)


def assert_samples(samples):
    assert len(samples) == 5
    assert all(math.isfinite(ms) and ms > 0 for times in samples.values() for ms in times)
    first, alone, graph, *_ = samples.values()
    assert len(first) == 1 and len(alone) == len(graph) == pitfalls.PAIRS


def test_the_recorded_samples_show_what_notebook_00_says():
    samples = pitfalls.recorded()
    assert_samples(samples)
    # a first call and launch gaps cost more than the product
    first, alone, graph, *_ = samples.values()
    assert first[0] > 10 * statistics.median(alone) > 10 * statistics.median(graph)


@pytest.mark.gpu
@needs_gpu
def test_the_samples_can_be_measured_here():
    assert_samples(pitfalls.measure())
