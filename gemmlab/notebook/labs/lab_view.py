"""What the lab shows of a kernel with its settings: a picture, its words, lines and numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gemmlab.analysis import facts as facts_of
from gemmlab.kernel.kernel import Kernel
from gemmlab.measure.ceilings import CeilingsError
from gemmlab.notebook.heat import Heat, heat
from gemmlab.plots.kernel_view import caption_of, panels, resources
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from gemmlab.records.roofs import Ceilings, ceilings

DPI = 120  # of the picture: more take longer to draw
LINES_TITLE = "The kernel's lines and what they cost"
NUMBERS_TITLE = "All numbers"


@dataclass(frozen=True)
class View:
    """What is shown of one choice of settings.

    `picture`: a PNG file. `said`: sentences, the caption of the picture first. `lines`: the
    kernel's source with what each line costs. `numbers`: quantity, value and unit in words.
    """

    picture: bytes
    said: tuple[str, ...]
    lines: Heat
    numbers: tuple[tuple[str, str, str], ...]


def known_roofs() -> tuple[Ceilings | None, str]:
    """The roofs, or None and why there are none: without a record only the speed is missing."""
    try:
        return ceilings(), ""
    except (NoRecord, StaleRecord, BadRecord, CeilingsError) as reason:
        return None, f"No roofline: {reason}"


def view_of(kernel: Kernel, arch: str, roofs: Ceilings | None, no_roofs: str = "") -> View:
    """The view of a kernel, with registers and occupancy of `arch`.

    roofs, no_roofs: as known_roofs gives. Raises what gemmlab.analysis.facts.of raises.
    """
    found = facts_of.of(kernel, arch)
    said = (caption_of(found, roofs), *resources(found), no_roofs)
    numbers = tuple(
        (quantity, _words(value), unit)
        for quantity, value, unit in found.table().itertuples(index=False)
    )
    return View(panels(found, roofs, DPI), tuple(filter(None, said)), heat(found.trace), numbers)


def _words(value) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "not recorded"
    return value if isinstance(value, str) else f"{value:,.4g}" if value % 1 else f"{value:,.0f}"
