"""Tables of this lesson: errors of the formats, where scales lie, what 19 does for them."""

import re
from collections.abc import Callable

import numpy as np
import pandas

from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.precision import E4M3
from gemmlab.lessons.block_scaled.formats import (
    FORMATS,
    IN_A_WORD,
    LANES,
    LARGEST_E4M3,
    MXFP8,
    ROWS,
    Format,
    in_atoms,
    quantized,
)

SIDE = 512  # rows of the matrices whose errors are shown, and their K


def errors() -> pandas.DataFrame:
    """The root of the mean square error beside that of the numbers, in percent: of FP8 with one
    scale for the matrix, as in 19, and of both formats, on data of three kinds."""
    random = np.random.default_rng(0)
    normal = random.standard_normal((SIDE, SIDE))
    data = {
        "normal": normal,
        "rows from 1 to a millionth": normal * np.logspace(0, -6, SIDE)[:, None],
        "1 in 1,000 a hundredfold": normal * np.where(random.random(normal.shape) < 1e-3, 100, 1),
    }
    return pandas.DataFrame({
        "FP8, one scale": {name: _error(X, _of_tensor(X)) for name, X in data.items()},
        **{
            to.name: {name: _error(X, quantized(X, to).numbers()) for name, X in data.items()}
            for to in FORMATS
        },
    })  # fmt: skip


def _of_tensor(values: np.ndarray) -> np.ndarray:
    scale = abs(values).max() / LARGEST_E4M3
    return E4M3.decode(E4M3.encode(values / scale, E4M3.storage)) * scale


def _error(values: np.ndarray, stored: np.ndarray) -> float:
    """Each row by itself, and the mean over rows: large rows would hide what small ones lose."""
    rows = ((stored - values) ** 2).mean(axis=1) / (values**2).mean(axis=1)
    return round(100 * float(np.sqrt(rows).mean()), 2)


def sizes() -> pandas.DataFrame:
    """What an element and a scale take, and what the scales add."""
    return pandas.DataFrame({
        to.name: {
            "bits of an element": to.bits,
            "elements with one scale": to.block,
            "bits of an element with its scale": to.bits + 8 / to.block,
            "elements of K in a stage": to.stage,
            "scales of a row in a stage": to.stage // to.block,
            "columns of scales of A in a stage": to.atoms * IN_A_WORD,
        }
        for to in FORMATS
    }).astype(object)  # fmt: skip


def atom(to: Format) -> pandas.DataFrame:
    """Which scales are in the first atom of a stage, by lanes and columns of tensor memory:
    row: blocks along K of the four bytes."""
    count = to.atoms * IN_A_WORD
    numbers = np.arange(ROWS * count).reshape(ROWS, count)
    there = in_atoms(numbers, count).reshape(-1, LANES, ROWS // LANES, IN_A_WORD)

    def words(lane: int, column: int) -> str:
        scales = there[0, lane, column]
        return f"row {scales[0] // count}: {scales[0] % count} to {scales[-1] % count}"

    return pandas.DataFrame(
        {f"column {c}": [words(lane, c) for lane in (0, 1, LANES - 1)] for c in range(4)},
        index=pandas.Index(["lane 0", "lane 1", f"lane {LANES - 1}"]),
    )


def beside(kernel: Kernel, before: Kernel) -> pandas.DataFrame:
    """What 27 and 19's kernel for scales of blocks have in their code, as compiled."""
    return pandas.DataFrame({each.name: _facts(each) for each in (before, kernel)})


def _facts(kernel: Kernel) -> dict[str, int]:
    entry = kernel.rung.entry(kernel.settings)
    body = kernel.compiled.ptx.partition(f".entry {entry}(")[2]
    return {
        "threads of a block": kernel.rung.block(kernel.settings)[0],
        "registers of a thread": kernel.taken(kernel.arch).registers,
        "fused multiply-adds of float32": len(re.findall(r"\bfma\.rn", body)),
        "multiplications of float32": len(re.findall(r"\bmul(?:\.rn)?(?:\.ftz)?\.f32", body)),
        "copies of scales to tensor memory": len(re.findall(r"\btcgen05\.cp", body)),
    }


def check_scale(yours: Callable[[float], int]) -> None:
    """Say whether a function of the largest magnitude of a block gives the code of its E8M0."""
    for largest in (1.0, 1.5, 448.0, 500.0, 2.0**-20, 3.0e6):
        expected = int(MXFP8.encode_scale(np.array(largest)))
        if yours(largest) != expected:
            print(f"Not yet: for {largest:g} the scale is not 2**({yours(largest)} - 127).")
            return
    print("Right: all six scales are as they should be.")
