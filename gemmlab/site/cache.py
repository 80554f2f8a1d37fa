"""What was rendered for the site is kept, and drawn anew only where what it shows changed.

A folder for each kind and rung. An entry is a JSON file named by what it was made from; pictures
are files named by their own content, so equal ones are kept once. An entry is written after its
pictures, whole or not at all: an interrupted build goes on where it was.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from PIL import Image

from gemmlab import files
from gemmlab.folders import PACKAGE, ROOT

FOLDER = ROOT / "build" / "site-cache"
NOT_DRAWING = (__name__, "gemmlab.measure", "gemmlab.records")
DRAWN_WITH = ("matplotlib", "numpy", "pillow")
DIGITS = 16  # of a hash in a file's name
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True)
class Shelf:
    """The entries of one folder: dicts that JSON can hold, `pictures` names the files of each."""

    folder: Path

    def get(self, key: str, make: Callable[[], dict]) -> dict:
        """The entry of a key, from `make()` where it is not there, or not whole."""
        path = self.folder / f"{key}.json"
        try:
            entry = json.loads(path.read_bytes())
            if all((self.folder / name).is_file() for name in entry["pictures"]):
                return entry
        except (FileNotFoundError, ValueError, KeyError):
            pass
        content = json.dumps(make(), ensure_ascii=False).encode()
        files.write(path, content)
        return json.loads(content)

    def keep_picture(self, content: bytes) -> str:
        """Keep a WebP file, and return its name."""
        name = f"{_digits(content)}.webp"
        if not (self.folder / name).is_file():
            files.write(self.folder / name, content)
        return name

    def size_of(self, name: str) -> tuple[int, int]:
        """Width and height of a picture in pixels."""
        with Image.open(self.folder / name) as image:
            return image.size

    def prune(self, keys: Collection[str]) -> None:
        """Remove all entries but these, and the pictures that only the others name."""
        kept = {f"{key}.json" for key in keys}
        for name in tuple(kept):
            kept |= set(json.loads((self.folder / name).read_bytes())["pictures"])
        for path in self.folder.iterdir():
            if path.name not in kept:
                path.unlink()


def key_of(*parts: object) -> str:
    """Of what an entry is made from: each part by its repr."""
    versions = [f"{name} {version(name)}" for name in DRAWN_WITH]
    return _digits(json.dumps([*versions, *map(repr, parts)]).encode())


@cache
def code_of(module: str) -> str:
    """A hash of a module of gemmlab and of all that it imports of it, also inside of functions.

    Comments, docstrings and white space do not count. Nor does how things are kept here, or how
    speeds are measured and recorded: whoever shows a recorded value has the value in the key.
    """
    code: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in code or name.startswith(NOT_DRAWING):
            continue
        if path := _path_of(name):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            waiting += _imports(tree)
            code[name] = ast.dump(_without_docstrings(tree))
    return _digits(json.dumps(sorted(code.items())).encode())


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            del node.body[0]
    return tree


def _imports(tree: ast.Module) -> Iterator[str]:
    """The modules that it imports, or from which it imports names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in (f"{node.module}.{one.name}" for one in node.names):
                yield name if _path_of(name) else node.module


def _path_of(module: str) -> Path | None:
    """The file of a module of gemmlab; None for any other name."""
    first, *rest = module.split(".")
    if first != "gemmlab" or not rest:
        return None
    path = PACKAGE.joinpath(*rest)
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((one for one in found if one.is_file()), None)


def _digits(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]
