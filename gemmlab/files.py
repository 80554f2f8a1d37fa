"""Files that are written whole, or not at all; and tables that lie beside a module."""

import csv
import os
import tempfile
from pathlib import Path


def rows_beside(module: str, name: str) -> list[dict[str, str]]:
    """The rows of a CSV file in the folder of a module, which is given by its file."""
    with Path(module).with_name(name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def write(path: Path, content: bytes) -> None:
    """Write the content under a temporary name, which is then renamed. Raises OSError, and then
    leaves the file as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
