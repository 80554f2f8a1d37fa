"""What makes two kernels the same: their code, the headers they include, and their settings."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from gemmlab.folders import KERNELS


def code_hash(source: str | Path, macros: dict[str, int]) -> str:
    """A fingerprint of what is compiled: code, headers from `kernels/`, and settings.

    Comments and white space do not count, nor does the compiler's version.
    """
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    code = [_stripped(text)]
    for name in _headers(text, set()):
        code.append(_stripped((KERNELS / name).read_text(encoding="utf-8")))
    content = json.dumps([code, sorted(macros.items())])
    return "sha256:" + hashlib.sha256(content.encode()).hexdigest()


def short_code(source: str | Path, macros: dict[str, int]) -> str:
    """The first sixteen digits of the fingerprint, for a column of a table."""
    return shortened(code_hash(source, macros))


def shortened(code: str) -> str:
    return code.removeprefix("sha256:")[:16]


def _headers(text: str, seen: set[str]) -> list[str]:
    """Names of own headers, directly or indirectly included, in the order of their mention."""
    found = []
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
        if name not in seen and (KERNELS / name).is_file():
            seen.add(name)
            found += [name, *_headers((KERNELS / name).read_text(encoding="utf-8"), seen)]
    return found


def _stripped(text: str) -> str:
    """The code's tokens: no comments, one space between tokens, a line each for directives."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)
