"""What one notebook alone needs: a package each, named as its notebook.

A lesson imports the core and lessons below it on the ladder. The core imports none: it finds the
modules that it may have: `rung` (its entry on the ladder), `kernels` (of gl.matmul besides),
`one_kernel` (which of them), `chapter`, `command`, and `measure` (EVIDENCE, what is measured for it
and kept; importing it loads nothing that draws).
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType


def modules(name: str) -> list[ModuleType]:
    """The module called `name` of each lesson that has one."""
    files = Path(__file__).parent.glob(f"*/{name}.py")
    return [import_module(f"{__name__}.{file.parent.name}.{name}") for file in sorted(files)]
