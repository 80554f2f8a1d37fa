"""What is measured piece by piece, each on disk before the next begins: a CSV file that grows.

A program that is stopped in any way loses the measurement under way and no other. What it leaves of
a last line that it could not finish is dropped when the file is opened again.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gemmlab import files
from gemmlab.records.registry import bad


class Journal:
    """The rows of a file with these columns. Raises BadRecord for a file with others, NotWritten.

    As a context manager it holds the file open to append.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns = path, tuple(columns)
        self._file: io.TextIOBase | None = None

    def rows(self) -> list[dict[str, str]]:
        """What is there, as text; nothing of a last line that was not finished."""
        whole = self._whole_lines()
        if not whole:
            return []
        reader = csv.DictReader(io.StringIO(whole))
        if tuple(reader.fieldnames or ()) != self.columns:
            raise bad(self.path, f"its columns are not {', '.join(self.columns)}")
        return list(reader)

    def __enter__(self) -> Journal:
        files.require_writable(self.path.parent)
        self.rows()  # raises for a file that is none of these
        whole = self._whole_lines().encode()
        self._file = open(self.path, "a", newline="", encoding="utf-8")
        self._file.truncate(len(whole))
        if not whole:
            self._write(self.columns)
        return self

    def __exit__(self, *error) -> None:
        self._file.close()
        self._file = None

    def append(self, row: Mapping[str, Any]) -> None:
        """One row: when this returns, it is on the disk. Raises ValueError for other columns."""
        if set(row) != set(self.columns):
            raise ValueError(f"a row has {sorted(row)}, the journal {sorted(self.columns)}")
        self._write([row[name] for name in self.columns])

    def _write(self, cells: Sequence[Any]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(cells)
        self._file.write(line.getvalue())
        self._file.flush()
        os.fsync(self._file.fileno())

    def _whole_lines(self) -> str:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return ""
        return text[: text.rfind(b"\n") + 1].decode("utf-8")
