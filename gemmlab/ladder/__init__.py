"""What rungs there are: each with its file, parameters, launches and limits.

This is the one list. Notebooks, tests, sweeps and records read it. To add a rung, touch four
things: its kernel, `kernels/NN_name.cu`; its entry, RUNG in `gemmlab/lessons/name/rung.py`, which
is found there; its record, `python -m gemmlab tune` and `record` on a GPU; its notebook.

Read rung first, for what an entry says, and launch, for what its `plan` makes: grid, block,
arguments. Then an entry, lessons/naive/rung. Then problem, precision, settings: what these are made
of. choices is for those who ask.
"""
# ruff: noqa: F401

from gemmlab.ladder.choices import (
    OTHERS,
    RUNGS,
    LadderError,
    filled_in,
    find,
    legal_settings,
    near,
    nearest,
    nearest_on,
    of_type,
    require_arch,
    require_compiled,
    settings_for,
    stored_as,
    tuned_settings,
)
from gemmlab.ladder.launch import SIMULATED, Launch, MapOf, Target, Workspace
from gemmlab.ladder.precision import BRAIN, HALF, SINGLE, ElementType, Precision
from gemmlab.ladder.probes import CEILINGS, LEVELS, PIECES_PROBE, TENSOR_CEILING, Read
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import (
    Constraint,
    IllegalSetting,
    Parameter,
    Settings,
    is_whole,
    listed,
    read_settings,
    written,
)
