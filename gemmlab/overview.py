"""What README.md shows of the project itself: the ladder table from the records, and a picture.

`make readme` writes both. A test holds README.md against the records, so neither can grow stale.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from gemmlab import records, roofline
from gemmlab.kernel import load
from gemmlab.ladder import CEILINGS, RESULTS, ROOT, RUNGS

README = ROOT / "README.md"
PICTURE = RESULTS / "pictures" / "01_naive_warp.png"
SIZE = 4096
BEGIN, END = "<!-- made by `make readme`, not by hand -->", "<!-- end of what is made -->"


def made() -> str:
    """The part of README.md between BEGIN and END, both included, from kernels and records."""
    picture = _figure()
    relative = PICTURE.relative_to(ROOT).as_posix()
    return "\n\n".join([BEGIN, f"![{picture.caption}]({relative})", ladder_table(), END])


def ladder_table() -> str:
    """The ladder as a Markdown table: every rung, its idea, and its recorded speed at 4096³."""
    roofs = roofline.recorded_ceilings()
    lines = [
        f"| rung | idea | TFLOP/s at {SIZE}³ | of cuBLAS |",
        "|---|---|---|---|",
        f"| [{CEILINGS.name}](notebooks/{CEILINGS.name}.ipynb) | measure the roofs first: "
        f"{roofs.bytes_per_second / 1e12:.2f} TB/s copied | "
        f"{roofs.flop_per_second / 1e12:.1f} | |",
    ]
    for rung in RUNGS:
        run = records.replay_at(load(rung.name), SIZE, SIZE, SIZE)
        lines.append(
            f"| [{rung.name}](notebooks/{rung.name}.ipynb) | {rung.idea} | "
            f"{run.gflops / 1e3:.2f} | {100 * run.ratio.median:.1f} % |"
        )
    provenance = records.entry(load(RUNGS[0].name))["provenance"]
    lines += [
        "",
        f"FP32, measured on one {provenance['gpu']} with CUDA {provenance['cuda']} and cuBLAS "
        f"{provenance['cublas']}, {provenance['recorded'][:10]}; medians, in turn with cuBLAS.",
    ]
    return "\n".join(lines)


def updated(readme: str) -> str:
    """`readme` with the made part renewed. Raises ValueError where its markers are not there."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    if not pattern.search(readme):
        raise ValueError(f"README.md has no part between '{BEGIN}' and '{END}'")
    return pattern.sub(lambda _: made(), readme)


def _figure():
    from gemmlab.plots import warp_map

    return warp_map(load("01_naive").trace(64, 64, 64))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(path.suffix + ".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


if __name__ == "__main__":
    _write(PICTURE, _figure().png())
    _write(README, updated(README.read_text(encoding="utf-8")).encode())
