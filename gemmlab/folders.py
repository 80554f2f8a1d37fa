"""Where kernels, notebooks and records are: in the checkout, or in what a wheel installed."""

from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
IS_CHECKOUT = (PACKAGE.parent / "pyproject.toml").is_file()

ROOT = PACKAGE.parent if IS_CHECKOUT else PACKAGE / "data"
KERNELS = ROOT / "kernels"
NOTEBOOKS = ROOT / "notebooks"
RESULTS = ROOT / "results"

COMMON = KERNELS / "common"
"""Headers that several rungs include."""

INCLUDE_FOLDERS = (KERNELS, COMMON, *sorted(p for p in KERNELS.glob("[0-9]*") if p.is_dir()))
"""Where `#include "..."` finds a file: rungs, COMMON, then for each rung the folder of what it
alone needs. A name is in one of them only.
"""


def kernel_file(name: str) -> Path:
    """The rung, probe or header of this name, such as "tiles.cuh"; below KERNELS if it is new."""
    if not _place(name, INCLUDE_FOLDERS).is_file():
        _place.cache_clear()  # it is new, or was elsewhere
    return _place(name, INCLUDE_FOLDERS)


@lru_cache
def _place(name: str, folders: tuple[Path, ...]) -> Path:
    paths = (folder / name for folder in folders)
    return next((path for path in paths if path.is_file()), KERNELS / name)


def kernel_files() -> list[Path]:
    """All rungs, probes and headers, folder by folder."""
    return [path for folder in INCLUDE_FOLDERS for path in sorted(folder.glob("*.cu*"))]
