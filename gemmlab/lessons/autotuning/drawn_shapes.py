"""gl.matmul beside cuBLAS at shapes that were drawn after the choice was made: judged.csv."""

import numpy as np
import pandas

from gemmlab.ladder import SIMULATED, Problem
from gemmlab.plots import style
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, WIDTH
from gemmlab.products import choosing
from gemmlab.products.choosing import TYPES
from gemmlab.products.estimate import ROW_BYTES
from gemmlab.records import registry

FILE = "judged.csv"
TILE, SMS = 128, SIMULATED.sm_count  # rows and columns of a tile of C; of an H200
CLASSES = (  # shares below this, from the one before: (words, colour)
    (0.75, "below 0.75", style.VERMILION), (0.9, "0.75 to 0.9", style.ORANGE),
    (1.1, "0.9 to 1.1", style.FAINT), (1.5, "1.1 to 1.5", style.SKY),
    (np.inf, "above 1.5", style.BLUE),
)  # fmt: skip


def recorded() -> pandas.DataFrame:
    """A row for each shape and type, with `share`: cuBLAS's time over ours. Raises NoRecord."""
    table = pandas.read_csv(registry.made_by("benchmarks/judged.py", FILE))
    return table.assign(share=table["cublas_us"] / table["us"])


def at(table: pandas.DataFrame, shape: tuple[int, int, int], dtype: str) -> pandas.DataFrame:
    """What was measured of a type at one of the shapes, (M, N, K): microseconds, and the share."""
    rows = table[(table[[*"mnk"]] == list(shape)).all(axis=1) & (table["dtype"] == dtype)]
    labels = {"rung": "kernel", "us": "µs", "cublas_us": "µs of cuBLAS", "share": "cuBLAS / ours"}
    return rows[[*labels]].rename(columns=labels).set_index("kernel")


def by_family(table: pandas.DataFrame) -> pandas.DataFrame:
    """For each type, and each family of shapes in it: how many, the geometric mean of the shares,
    the least, how many are below 0.9, and the mean beside the fastest that cuBLASLt proposes."""
    rows = {}
    for dtype, of_type in table.groupby("dtype"):
        for family, part in (("all", of_type), *of_type.groupby("family")):
            beside = _mean(part["cublaslt_us"] / part["us"])
            rows[dtype, family] = _summary(part["share"]) | {"beside proposals": beside}
    return _as_table(rows)


def beside_nearest(table: pandas.DataFrame) -> pandas.DataFrame:
    """For each type: what the fastest settings of the nearest recorded shape are worth, at the
    recorded shapes themselves, at drawn ones, and at those whose rows begin at multiples of 16
    bytes; and what the model's choice is worth at drawn ones. Raises BadRecord."""
    rows = {}
    for dtype, of_type in table[table["nearest_us"].notna()].groupby("dtype"):
        recorded_at: dict[Problem, list[choosing.Row]] = {}
        for row in choosing.recorded(dtype):
            if (row.problem.batch, row.problem.ops) == (1, "NN"):
                recorded_at.setdefault(row.problem, []).append(row)
        fastest = [max(there, key=lambda row: row.tflops) for there in recorded_at.values()]
        tuned = pandas.Series([row.share for row in fastest])
        rows[dtype, "nearest record, where recorded"] = _summary(tuned)
        nearest = of_type["cublas_us"] / of_type["nearest_us"]
        aligned = _is_aligned(of_type, dtype)
        rows[dtype, "nearest record, drawn shapes"] = _summary(nearest)
        rows[dtype, f"nearest record, rows of whole {ROW_BYTES} bytes"] = _summary(nearest[aligned])
        rows[dtype, "model, drawn shapes"] = _summary(of_type["share"])
    return _as_table(rows)


def by_rows_and_tiles(table: pandas.DataFrame) -> pandas.DataFrame:
    """For each type whose proposals were timed: shapes by whether all rows begin at multiples of
    16 bytes, and by whether C has a tile for each SM."""
    rows = {}
    for dtype, of_type in table[table["cublaslt_us"].notna()].groupby("dtype"):
        aligned, many = _is_aligned(of_type, dtype), of_type["m"] * of_type["n"] >= SMS * TILE**2
        for of_rows, has in ((f"multiples of {ROW_BYTES} bytes", aligned), ("others", ~aligned)):
            for of_tiles, large in ((f"{SMS} tiles or more", many), ("fewer", ~many)):
                part = _summary(of_type["share"][has & large])
                part["below 0.9, %"] = round(100 * part.pop("below 0.9") / part["shapes"])
                rows[dtype, of_rows, of_tiles] = part
    every = pandas.DataFrame(rows).T.rename_axis(["type", "rows begin at", "size of C"])
    return every.astype({"shapes": int, "below 0.9, %": int})


def _is_aligned(table: pandas.DataFrame, dtype: str) -> pandas.Series:
    """Whether rows of A and of B begin at multiples of ROW_BYTES."""
    size = TYPES[dtype].a.bytes
    return (table["n"] * size % ROW_BYTES == 0) & (table["k"] * size % ROW_BYTES == 0)


def _summary(share: pandas.Series) -> dict[str, float]:
    return {
        "shapes": len(share), "mean": _mean(share), "least": round(share.min(), 2),
        "below 0.9": int((share < 0.9).sum()),
    }  # fmt: skip


def _as_table(rows: dict) -> pandas.DataFrame:
    return pandas.DataFrame(rows).T.astype({"shapes": int, "below 0.9": int})


def _mean(shares: pandas.Series) -> float:
    """Geometric; NaN of none."""
    return round(float(np.exp(np.log(shares).mean())), 3)


@styled
def shares(table: pandas.DataFrame) -> Picture:
    """A panel for each type whose proposals were timed: a dot for each shape, over its arithmetic
    intensity and the tiles of C, coloured by its share."""
    table = table[table["cublaslt_us"].notna()]
    types = list(table["dtype"].unique())
    below = [
        f"{(part['share'] < 0.9).mean():.0%} in {dtype}" for dtype, part in table.groupby("dtype")
    ]
    caption = (
        f"Colour: cuBLAS's time over that of gl.matmul at {len(table) // len(types)} shapes that "
        "were drawn at random after the choice was fixed. FLOP per byte where each matrix is moved "
        f"once; at the dashed line C has one tile of {TILE}×{TILE} for each of {SMS} SMs. Below "
        f"0.9 are {style.listed(below)}."
    )
    key = [
        (words, {"color": colour, "marker": "o", "linestyle": ""}) for _, words, colour in CLASSES
    ]
    fig = page("Shapes that nobody tuned", 3.7, caption, style.provenance(table), key=key)
    wide = (WIDTH - 2 * MARGIN - 0.55) / len(types)
    for at, dtype in enumerate(types):
        part = table[table["dtype"] == dtype].sort_values("share", ascending=False)
        problems = [Problem(*shape) for shape in part[[*"mnk"]].to_numpy().tolist()]
        intensity = [problem.flop / problem.least_bytes(TYPES[dtype]) for problem in problems]
        colours = [
            next(colour for most, _, colour in CLASSES if share < most) for share in part["share"]
        ]
        left = MARGIN + 0.55 + at * wide
        ax = fig.add_axes_at(left, fig.top + 0.3, wide - 0.2, 2.8)
        tiles = part["m"] * part["n"] / TILE**2
        ax.scatter(intensity, tiles, s=11, c=colours, alpha=0.8, linewidths=0)
        ax.axhline(SMS, color=style.BLACK, linewidth=0.8, linestyle="--")
        ax.set(xscale="log", yscale="log", xlabel="FLOP per byte", title=dtype)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
        if at:
            ax.tick_params(labelleft=False)
        else:
            ax.set_ylabel(f"size of C in tiles of {TILE}×{TILE}")
    return fig
