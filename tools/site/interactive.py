"""Find the sliders or the player that a cell shows, from its code."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

LAB, STEP_PLAYER, RING_PLAYER = CALLS = ("lab", "step_player", "ring_player")


@dataclass(frozen=True)
class Loaded:
    """A kernel as gl.load(name, **settings) gives it; settings beside the rung's defaults."""

    name: str
    settings: dict[str, int]


@dataclass(frozen=True)
class Call:
    """gl.<function>(...) of a kernel: sliders, or a player. `shape`: M, N, K where it says them."""

    function: str
    kernel: Loaded
    shape: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Of its files on the site."""
        return f"{self.kernel.name}_{self.function}"


def constants(code: str, known: dict[str, object]) -> dict[str, object]:
    """What a cell assigns that is told without running it: constants, settings, kernels loaded.

    known: what the cells before assigned.
    """
    assigned = dict(known)
    for node in _parsed(code).body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for name, expression in pairs:
            try:
                assigned[ast.unparse(name)] = _value(expression, assigned)
            except ValueError:
                assigned.pop(ast.unparse(name), None)
    return assigned


def call(code: str, known: dict[str, object]) -> Call | None:
    """The sliders or the player that a cell shows, by its last line; None where it shows neither.

    Raises ValueError where only running the cell would tell of which kernel.
    """
    body = _parsed(code).body
    last = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
    if not isinstance(last, ast.Call) or (function := _called(last)) not in CALLS:
        return None
    kernel, *shape = [_value(argument, known) for argument in last.args]
    if isinstance(kernel, str):
        kernel = Loaded(kernel, _keywords(last, known))
    if not isinstance(kernel, Loaded):
        raise ValueError(f"{ast.unparse(last)} shows {kernel!r}, which is no kernel.")
    return Call(function, kernel, tuple(shape))


def calls(notebook: Path) -> list[Call]:
    """All sliders and players that a notebook shows. Raises ValueError as `call` does."""
    known: dict[str, object] = {}
    shown = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"])
            known = constants(code, known)
            shown.append(call(code, known))
    return list(filter(None, shown))


def _parsed(code: str) -> ast.Module:
    if code.startswith("%%"):
        return ast.Module([], [])
    return ast.parse(re.sub(r"^%.*$", "", code, flags=re.M))


def _called(node: ast.Call) -> str:
    """Of gl.lab(...) "lab", of ring_player(...) and dict(...) their names; "" of others."""
    name = ast.unparse(node.func)
    known = name.startswith("gl.") or name in (RING_PLAYER, "dict")
    return name.removeprefix("gl.") if known else ""


def _keywords(node: ast.Call, known: dict[str, object]) -> dict:
    values: dict = {}
    for keyword in node.keywords:
        value = _value(keyword.value, known)
        values |= value if keyword.arg is None else {keyword.arg: value}
    return values


def _value(node: ast.expr, known: dict[str, object]) -> object:
    """Raises ValueError for what only running it could tell."""
    if isinstance(node, ast.Name):
        if node.id not in known:
            raise ValueError(f"{node.id} is not known without running the cells before.")
        return known[node.id]
    if isinstance(node, ast.Call) and _called(node) == "dict":
        return _keywords(node, known)
    if isinstance(node, ast.Call) and _called(node) == "load":
        return Loaded(str(_value(node.args[0], known)), _keywords(node, known))
    return ast.literal_eval(node)
