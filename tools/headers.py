"""`python -m tools.headers`: the table of headers in kernels/README.md, made anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gemmlab import files
from gemmlab.folders import KERNELS, kernel_file, kernel_files
from gemmlab.ladder import RUNGS
from tools.site.pages.code import about

PAGE = KERNELS / "README.md"
BEGIN, END = "<!-- made by `python -m tools.headers` -->", "<!-- end -->"


def included(path: Path) -> set[str]:
    """The names of all headers that a file includes, directly or not."""
    headers: set[str] = set()
    ahead = [path]
    while ahead:
        names = re.findall(r'^\s*#\s*include\s*"([^"]+)"', ahead.pop().read_text("utf-8"), re.M)
        ahead += [kernel_file(name) for name in names if name not in headers]
        headers.update(names)
    return headers


def rows() -> Iterator[tuple[Path, str, str]]:
    """Of each header: its file, what it is for, and the rungs that use it, or else the probes."""
    users = {path.stem: included(path) for path in kernel_files() if path.suffix == ".cu"}
    rungs = {rung.name for rung in RUNGS}
    for path in kernel_files():
        if path.suffix == ".cuh":
            names = sorted(name for name, headers in users.items() if path.name in headers)
            numbers = [name[:2] for name in names if name in rungs]
            what = about(path.name, path.read_text("utf-8")).replace("<", r"\<")
            yield path, what, ", ".join(numbers or names or ["none as it is"])


def renewed(text: str) -> str:
    """The page with its table made anew."""
    lines = ["| header | what it is for | rungs |", "|---|---|---|"]
    for path, what, who in rows():
        name = path.relative_to(KERNELS).as_posix()
        lines.append(f"| [{name}]({name}) | {what} | {who} |")
    table = "\n".join([BEGIN, "", *lines, "", END])
    return re.sub(f"{BEGIN}.*?{END}", lambda _: table, text, flags=re.S)


if __name__ == "__main__":
    files.write(PAGE, renewed(PAGE.read_text("utf-8")).encode())
