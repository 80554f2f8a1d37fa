"""What stands behind #if: a constant expression of C, as the preprocessor computes it."""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping

Macros = Mapping[str, str | None]  # the bodies of macros; None of those that have parameters

DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
# As Python writes them. ~ stands for !, which binds as strongly; no expression here has C's own ~.
SIGNS = {"&&": " and ", "||": " or ", "!": "~"}
OPERATORS: dict[type, Callable[[int, int], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b, ast.Mod: math.fmod,  # both are cut off towards 0, as in C
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


class BadCondition(Exception):
    """A condition that cannot be computed. The message says why."""


def value_of(expression: str, macros: Macros, *, after_if: bool = True) -> int:
    """Of an expression without shifts and bitwise operators. Names that are no macros are 0 after
    #if, and forbidden elsewhere. Raises BadCondition."""
    text = DEFINED.sub(lambda match: str(+is_defined(match[1] or match[2], macros)), expression)
    text = _expanded(text, macros, after_if, frozenset()).replace("~", "unknown")
    text = re.sub(r"&&|\|\||!(?!=)", lambda sign: SIGNS[sign[0]], text)
    text = re.sub(r"\b(0[xX][\da-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    try:
        return _choice(text)
    except (SyntaxError, ZeroDivisionError, ValueError):
        raise BadCondition(f"the value of {expression!r} cannot be computed") from None


def is_defined(name: str, macros: Macros) -> bool:
    """Raises BadCondition for a name that belongs to the compiler."""
    if name.startswith("__") and name not in macros:
        raise BadCondition(f"only the compiler knows {name}")
    return name in macros


def _expanded(text: str, macros: Macros, after_if: bool, within: frozenset[str]) -> str:
    """With the bodies of macros instead of their names, but of none `within` its own."""

    def replaced(match: re.Match[str]) -> str:
        name = match[0]
        if name in within or not is_defined(name, macros):
            if not after_if:
                raise BadCondition(f"{name} is no macro")
            return "0"
        if (body := macros[name]) is None:
            raise BadCondition(f"{name} is a macro with parameters")
        return _expanded(body, macros, after_if, within | {name})

    return re.sub(r"\b[A-Za-z_]\w*", replaced, text)


def _choice(text: str) -> int:
    """Of an expression with ?: at its end, or without."""
    condition, question, rest = text.partition("?")
    if question:
        yes, _, no = rest.partition(":")
        return _choice(yes if _choice(condition) else no)
    return _computed(ast.parse(text.strip(), mode="eval").body)


def _computed(node: ast.expr) -> int:
    """Raises ValueError for what is no integer expression of OPERATORS, !, -, && and ||."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(ast.Invert(), operand):
            return int(not _computed(operand))
        case ast.UnaryOp(ast.USub(), operand):
            return -_computed(operand)
        case ast.BoolOp(sign, values):
            holds = any if isinstance(sign, ast.Or) else all
            return int(holds(map(_computed, values)))
        case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]):
            if type(sign) in OPERATORS:
                return int(OPERATORS[type(sign)](_computed(left), _computed(right)))
    raise ValueError
