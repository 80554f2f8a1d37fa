"""What rungs there are: each with its file, parameters, launches and limits.

This is the one list. Notebooks, tests, sweeps and records read it. To add a rung, touch four
things: its kernel, `kernels/NN_name.cu`; its entry, RUNG in `gemmlab/lessons/name/rung.py`, which
is found there; its record, `python -m gemmlab tune` and `record` on a GPU; its notebook.

Read rung first, for what an entry says, and launch, for what its `plan` makes: grid, block,
arguments. Then an entry, lessons/naive/rung. Then problem, precision, settings, constraints: what
these are made of. choices and lookup are for those who ask.
"""

from gemmlab.ladder.choices import (
    filled_in,
    legal_settings,
    nearest,
    nearest_on,
    of_type,
    require_arch,
    require_compiled,
    settings_for,
    stored_as,
    tuned_settings,
)
from gemmlab.ladder.constraints import Constraint
from gemmlab.ladder.element_types import ElementType
from gemmlab.ladder.launch import SIMULATED, Launch, MapOf, Target, Workspace
from gemmlab.ladder.lookup import RUNGS, LadderError, find
from gemmlab.ladder.precision import BRAIN, HALF, SINGLE, Precision
from gemmlab.ladder.probes import (
    CEILINGS,
    CEILINGS_NAME,
    LEVELS,
    PIECES_PROBE,
    TENSOR_CEILING,
    Read,
)
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import (
    IllegalSetting,
    Parameter,
    Settings,
    is_whole,
    listed,
    read_settings,
    written,
)

__all__ = [
    "BRAIN",
    "CEILINGS",
    "CEILINGS_NAME",
    "HALF",
    "LEVELS",
    "PIECES_PROBE",
    "RUNGS",
    "SIMULATED",
    "SINGLE",
    "TENSOR_CEILING",
    "Constraint",
    "ElementType",
    "IllegalSetting",
    "LadderError",
    "Launch",
    "MapOf",
    "Parameter",
    "Precision",
    "Problem",
    "Read",
    "Rung",
    "Settings",
    "Target",
    "Workspace",
    "filled_in",
    "find",
    "is_whole",
    "legal_settings",
    "listed",
    "nearest",
    "nearest_on",
    "of_type",
    "read_settings",
    "require_arch",
    "require_compiled",
    "settings_for",
    "stored_as",
    "tuned_settings",
    "written",
]
