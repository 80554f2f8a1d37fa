"""What the types do to a product: computed, and drawn over K."""

import numpy as np
import pandas
import pytest
from figures import test_it_can_be_read, the_one, words  # noqa: F401

from gemmlab.ladder.probes import MMA_TYPES as TYPES
from gemmlab.lessons.mma_sync import figures
from gemmlab.lessons.mma_sync import tables as precisions

NAMES = [one.name for one in TYPES]


@pytest.fixture(scope="module")
def table():
    return pandas.DataFrame(
        {"dtype": name, "k": k, "error": 10.0 ** (at - 4) * k / 64}
        for at, name in enumerate(NAMES)
        for k in (64, 256)
    )


@pytest.fixture(scope="module")
def figure(table):
    return figures.error_over_k(table)


def test_every_type_has_its_curve_and_its_name(table, figure):
    for name in NAMES:
        curve = the_one(figure, name)
        assert curve.get_ydata().tolist() == table[table["dtype"] == name]["error"].tolist()
        assert name in words(figure)
    assert "At K = 256 float16 is the nearest and float8_e5m2 the farthest" in figure.caption


@pytest.mark.parametrize("dtype", range(len(TYPES)), ids=NAMES)
def test_the_kernels_own_error_is_within_its_bound(dtype):
    errors = precisions.of_type(dtype, 64, side=8)
    assert errors.kernel < errors.bound and errors.operands > 0
    assert errors.meant <= errors.operands + errors.kernel


def test_more_bits_of_the_fraction_are_nearer():
    found = {name: precisions.of_type(at, 64, side=8).operands for at, name in enumerate(NAMES)}
    assert found["float16"] < found["bfloat16"] < found["float8_e4m3"] < found["float8_e5m2"]


def test_fractions_and_largest_numbers_are_those_of_the_types():
    for precision in TYPES:
        name, element = precision.name, precision.a
        if name in ("tf32", "int8"):
            continue
        bits = np.arange(2 ** (8 * element.bytes), dtype=element.bits).view(element.storage)
        with np.errstate(invalid="ignore"):
            numbers = element.decode(bits)
        finite = numbers[np.isfinite(numbers)]
        assert finite.max() == precisions.LARGEST[name]
        fraction = precisions.FRACTION[name][2]
        assert len(np.unique(finite[(finite >= 1) & (finite < 2)])) == 2**fraction
