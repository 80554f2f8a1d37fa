"""Which widgets a notebook's cells make, with which settings: read from its code, nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from gemmlab import ladder
from gemmlab.ladder import Settings

LAB, STEP_PLAYER, RING_PLAYER = "lab", "step_player", "ring_player"
WIDGETS = LAB, STEP_PLAYER, RING_PLAYER


@dataclass(frozen=True)
class Call:
    """One of WIDGETS of a rung. `settings`: all of them. `sizes`: m, n, k, where they are given."""

    widget: str
    rung: str
    settings: Settings = field(default_factory=dict)
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Loaded:
    """What gl.load(name, **settings) gives."""

    name: str
    settings: Settings


class _Unknown(Exception):
    """The value of an expression cannot be read from the code."""


def calls(notebook: Path) -> dict[int, Call]:
    """The widget that each cell ends with, by the cell's number from 0, for cells that do.

    Values are followed through constants, dict(...) and gl.load(...). Raises ValueError, naming the
    notebook and the cell, for a widget whose rung or settings they do not give.
    """
    known: dict[str, object] = {}
    found = {}
    for number, cell in enumerate(nbformat.read(notebook, as_version=4).cells):
        if cell.cell_type != "code" or cell.source.startswith("%%"):
            continue
        body = _parsed(cell.source).body
        for node in body:
            if isinstance(node, ast.Assign):
                _assign(node, known)
        last = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
        if _name_of(last) not in WIDGETS:
            continue
        try:
            found[number] = _call(last, known)
        except _Unknown as what:
            raise ValueError(
                f"{notebook.name}, cell {number}: {ast.unparse(last)} is no widget that can be "
                f"made for a page, for {what} is not known without running it."
            ) from None
    return found


def _parsed(source: str) -> ast.Module:
    """A cell's code without lines that are IPython's own."""
    return ast.parse("\n".join("" if line[:1] in "%!" else line for line in source.splitlines()))


def _name_of(node: ast.AST | None) -> str:
    """ "lab" for gl.lab(...)."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr if ast.unparse(node.func.value) == "gl" else ""
    return ""


def _call(node: ast.Call, known: Mapping[str, object]) -> Call:
    first, *sizes = (_value(one, known) for one in node.args)
    given = _keywords(node, known)
    if _name_of(node) == STEP_PLAYER:
        sizes += [given[name] for name in "mnk" if name in given]
        given = first.settings if isinstance(first, _Loaded) else {}
        first = getattr(first, "name", first)
    rung = ladder.find(first)
    return Call(_name_of(node), rung.name, ladder.filled_in(rung, given), tuple(sizes))


def _assign(node: ast.Assign, known: dict[str, object]) -> None:
    (target,) = node.targets[:1]
    pairs = [(target, node.value)]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        pairs = list(zip(target.elts, node.value.elts, strict=False))
    for name, value in pairs:
        if not isinstance(name, ast.Name):
            continue
        try:
            known[name.id] = _value(value, known)
        except _Unknown:
            known.pop(name.id, None)


def _value(node: ast.AST, known: Mapping[str, object]) -> object:
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict" and not node.args:
        return _keywords(node, known)
    if _name_of(node) == "load" and len(node.args) == 1:
        name = _value(node.args[0], known)
        return _Loaded(ladder.find(name).name, _keywords(node, known))
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise _Unknown(ast.unparse(node)) from None


def _keywords(node: ast.Call, known: Mapping[str, object]) -> dict:
    found = {}
    for one in node.keywords:
        value = _value(one.value, known)
        found |= {one.arg: value} if one.arg else value
    return found
