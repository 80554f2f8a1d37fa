"""Legal settings of every rung: right results at the edges of their tile, and some pictures.

One test for both, because reading a kernel's PTX takes longer than either.
"""

import io
import re

import numpy as np
import pytest
from PIL import Image

import gemmlab as gl
from gemmlab import ladder
from gemmlab.kernel import prebuilt, verify

MOST_PARTS = 8  # of K, in a picture here: all of them are simulated
MOST_DRAWN = 2  # of a rung: the site draws hundreds, each a move or two from the default


def covering(rung):
    """As few legal settings as it takes to meet all values of all parameters; of such that meet as
    many those that come compiled."""
    legal = sorted(ladder.legal_settings(rung), key=lambda s: not prebuilt.ships(rung, s))
    met = {tuple(settings.items()): set(settings.items()) for settings in legal}
    missing = set().union(*met.values())
    while missing:
        chosen = max(met, key=lambda name: len(met[name] & missing))
        missing -= met[chosen]
        yield dict(chosen)


def assert_right(rung, settings):
    kernel = gl.load(rung.name, **settings)
    rows, cols = rung.tile(settings)
    case = verify.check(kernel, min(rows, 70) + 1, min(cols, 70) + 1, 9, 0.5, -2.0, seed=8)
    assert case.passed, (settings, case)


@pytest.mark.parametrize("rung", gl.RUNGS, ids=lambda rung: rung.name)
def test_every_value_of_a_parameter_is_right_at_the_edges_of_its_tile_and_two_have_a_picture(rung):
    """A GPU verified the others when it recorded the sweep; benchmarks/lab_speed.py draws them."""
    lab, pictures, drawn = gl.lab(rung.name), set(), 0
    for settings in covering(rung):
        assert_right(rung, settings)
        if drawn == MOST_DRAWN or settings.get("SPLIT", 1) > MOST_PARTS:
            continue
        drawn += 1
        lab.choose(settings)
        assert lab.picture.value and lab.picture.layout.display is None, settings
        assert re.sub("<[^>]*>", "", lab.message.value) == "", settings
        assert lab.caption.value and lab.lines.value and lab.numbers.value
        pictures.add(lab.picture.value)
        lab._views.clear()
    assert len(pictures) == drawn > 0
    pixels = np.asarray(Image.open(io.BytesIO(pictures.pop())).convert("RGB"))
    assert pixels[0, 0].min() > 240  # a light ground
