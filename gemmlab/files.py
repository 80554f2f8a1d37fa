"""Files that are written whole, or not at all; and tables that lie beside a module."""

import csv
import os
import tempfile
from pathlib import Path


class NotWritten(OSError):
    """A file that could not be written, and is as it was; the message says why and what to do."""


def rows_beside(module: str, name: str) -> list[dict[str, str]]:
    """The rows of a CSV file in the folder of a module, which is given by its file."""
    with Path(module).with_name(name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def write(path: Path, content: bytes) -> None:
    """Write the content under a temporary name, which is then renamed. Raises NotWritten."""
    try:
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
    except OSError as error:
        raise _not_written(path.parent, f"{path.name} is as it was", error) from error


def require_writable(folder: Path) -> None:
    """Raise NotWritten where files cannot be written, before the work that goes into them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise _not_written(folder, "nothing was done", error) from error


def _not_written(folder: Path, so: str, error: OSError) -> NotWritten:
    return NotWritten(
        f"{folder} cannot be written ({error.strerror}); {so}. Make room there, make it writable, "
        "or work in a copy of your own, then again."
    )
