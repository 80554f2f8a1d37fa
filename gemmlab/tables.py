"""Tables of measurements as CSV files: written whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


def write(table: pandas.DataFrame, path: Path, columns: Sequence[str] | None = None) -> None:
    """Write the columns, or all, without the index; numbers keep six digits."""
    temporary = path.with_suffix(".tmp")
    table.to_csv(temporary, index=False, float_format="%.6g", columns=columns)
    os.replace(temporary, path)
