"""What the page of speeds takes: all points as one script of data, and the library that draws them.

    speeds.write(folder)

writes speeds-data.js, which a page that was opened from disk can load, too, and vendor/, where the
library lies with its licence. docs/_static/speeds.js reads both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from gemmlab import files
from gemmlab.plots.style import kernel_style
from gemmlab.report import GROUND, INK, RULE
from gemmlab.site.speed_points import CUBLAS, FAMILIES, KINDS, RECORDS, Recorded, recorded

DATA = "speeds-data.js"
NAME = "gemmlabSpeeds"  # of what the script of data sets
PACKAGE = "vl-convert-python"
LIBRARY = "vendor/vega.js"
LICENCE = "vendor/vega-LICENSE.txt"
SYMBOLS = {  # a marker of matplotlib -> a shape of Vega, which takes paths in a square of side 2
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down",
    "P": "cross",
    "*": "M0,-1L0.25,-0.35L0.95,-0.31L0.4,0.13L0.59,0.81L0,0.42L-0.59,0.81L-0.4,0.13L-0.95,-0.31"
         "L-0.25,-0.35Z",
}  # fmt: skip
COLUMNS = {
    # as the page calls it -> of a point. A text of few values is kept once.
    "record": lambda one: one.record,
    "file": lambda one: one.file,
    "rung": lambda one: one.rung,
    "what": lambda one: one.what,
    "settings": lambda one: one.settings,
    "type": lambda one: one.type,
    "precision": lambda one: one.precision,
    "kind": lambda one: one.kind,
    "m": lambda one: one.problem.m,
    "n": lambda one: one.problem.n,
    "k": lambda one: one.problem.k,
    "batch": lambda one: one.problem.batch,
    "ops": lambda one: one.problem.ops,
    "us": lambda one: 1e3 * one.time_ms,
    "us_q1": lambda one: _times(1e3, one.time_q1_ms),
    "us_q3": lambda one: _times(1e3, one.time_q3_ms),
    "tflops": lambda one: one.tflops,
    "share": lambda one: one.share,
    "share_q1": lambda one: one.share_q1,
    "share_q3": lambda one: one.share_q3,
    "roof": lambda one: one.roof_share,
    "clock_mhz": lambda one: one.clock_mhz,
    "power_w": lambda one: one.power_w,
    "code": lambda one: one.code,
    "recorded": lambda one: one.recorded,
    "gpu": lambda one: one.gpu,
    "driver": lambda one: one.driver,
    "cuda": lambda one: one.cuda,
    "cublas": lambda one: one.cublas,
}
"""µs for what is launched at once, TFLOP/s, shares in percent, MHz and W: medians and quartiles."""


def write(folder: Path) -> None:
    """Write the data and the library below `folder`. Raises BadRecord, NotWritten."""
    library = _library().encode()
    found = data(recorded(), len(library))
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    files.write(folder / DATA, f"window.{NAME} = {text};\n".encode())
    files.write(folder / LIBRARY, library)
    files.write(folder / LICENCE, _licence().encode())


def data(every: Iterable[Recorded], library_bytes: int) -> dict[str, Any]:
    """All that the page reads: what the names mean, and the columns of the points."""
    every = list(every)
    points = [(gpu.slug, one) for gpu in every for one in gpu.points]
    return {
        "columns": {
            "folder": _kept_once([slug for slug, _ in points]),
            **{name: _column([of(one) for _, one in points]) for name, of in COLUMNS.items()},
        },
        "rungs": _rungs({one.rung for _, one in points}),
        "records": RECORDS,
        "kinds": KINDS,
        "types": _by_first(one.type for _, one in points),
        "gpus": {gpu.slug: gpu.gpu for gpu in every},
        "left_out": [sentence for gpu in every for sentence in gpu.left_out],
        "colours": {"ground": GROUND, "ink": INK, "rule": RULE},
        "library": LIBRARY,
        "library_bytes": library_bytes,
    }


def _rungs(there: set[str]) -> list[dict[str, str]]:
    """What the page says and draws of each that has a point, in the ladder's order, cuBLAS last."""
    known = [(rung.name, rung.title, family) for family in FAMILIES for rung in FAMILIES[family]]
    return [
        {
            "name": name,
            "title": title,
            "family": family,
            "colour": kernel_style(name)["color"],
            "symbol": SYMBOLS[kernel_style(name)["marker"]],
        }
        for name, title, family in (*sorted(known), (CUBLAS, "cuBLAS or cuBLASLt", "library"))
        if name in there
    ]


def _by_first(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _column(values: list) -> Any:
    """Numbers with the six digits that records keep, or texts kept once."""
    if any(isinstance(one, str) for one in values):
        return _kept_once(values)
    return [_six_digits(one) for one in values]


def _six_digits(value: float | None) -> float | int | None:
    if value is None or isinstance(value, int):
        return value
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short


def _kept_once(values: list[str]) -> dict[str, list]:
    """The different ones, and which of them stands where."""
    there = {value: at for at, value in enumerate(_by_first(values))}
    return {"values": list(there), "at": [there[value] for value in values]}


# ---- the library ---------------------------------------------------------------------------------


def _library() -> str:
    """Vega-Lite and what it needs, as one script that sets no names but its own three."""
    import vl_convert

    line = f"{_versions()}; see {Path(LICENCE).name}"
    return f"/*! {line} */\n(function () {{\n{vl_convert.javascript_bundle()}\n}})();\n"


def _versions() -> str:
    import vl_convert

    return (
        f"Vega {vl_convert.get_vega_version()}, Vega-Lite {vl_convert.get_vegalite_versions()[-1]},"
        f" Vega-Embed {vl_convert.get_vega_embed_version()}, "
        f"bundled by {PACKAGE} {metadata.version(PACKAGE)}"
    )


def _licence() -> str:
    """That of the package, which is that of the libraries, the 3-clause BSD licence."""
    found = next(
        one for one in metadata.files(PACKAGE) or () if one.name == "LICENSE"
    )  # fmt: skip
    return (
        f"{_versions()}\n\nVega, Vega-Lite and Vega-Embed: copyright University of Washington "
        "Interactive Data Lab and contributors, under the same licence as the package that "
        f"bundles them, which reads:\n\n{found.read_text()}"
    )
