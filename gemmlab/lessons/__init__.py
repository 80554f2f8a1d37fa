"""Code that only one notebook needs: a package for each notebook, with its name.

A lesson imports the core and lessons below it on the ladder. The core imports no lesson: it finds
their modules by name. These are `rung` (its entry on the ladder), `kernels` (of gl.matmul, besides
the rungs), `one_kernel` (types that only one kernel multiplies), `chapter`, `command`, `measure`
(EVIDENCE: its measurements; importing it loads no code that draws).
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType


def modules(name: str) -> list[ModuleType]:
    """The module called `name` of each lesson that has one."""
    files = Path(__file__).parent.glob(f"*/{name}.py")
    return [import_module(f"{__name__}.{file.parent.name}.{name}") for file in sorted(files)]
