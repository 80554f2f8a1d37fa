"""Options for NVRTC: the macros of the settings, and the folders of the headers."""

from gemmlab.folders import INCLUDE_FOLDERS

LEVEL = "PTXAS"  # the macro that is also the level of optimization of ptxas, the assembler


def options_for(macros: dict[str, int]) -> tuple[str, ...]:
    """NVRTC's options for the tile parameters and the folders of the headers."""
    defined = (f"-D{name}={value}" for name, value in macros.items())
    level = (f"--ptxas-options=-O{macros[LEVEL]}",) if LEVEL in macros else ()
    return (*defined, *level, *(f"-I{folder}" for folder in INCLUDE_FOLDERS))
