"""What stands behind #if: a constant expression of C, as the preprocessor computes it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping

Macros = Mapping[str, str | None]  # the bodies of macros; None of those that have parameters

TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][\da-fA-F]+|0[0-7]*|[1-9]\d*)[uUlL]*\b|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><<|>>|[<>=!]=|&&|\|\||[-+*/%<>&|^!~?:()]))"
)


class BadCondition(Exception):
    """A condition that cannot be computed. The message says why."""


def value_of(expression: str, macros: Macros, *, after_if: bool = True) -> int:
    """Names that are no macros are 0 after #if, and forbidden elsewhere. Raises BadCondition."""
    plain = re.sub(
        r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))",
        lambda match: str(int(is_defined(match[1] or match[2], macros))), expression,
    )  # fmt: skip
    tokens = ["", *reversed(list(_expanded(plain, macros, after_if, frozenset())))]
    try:
        value = _choice(tokens)
    except (ZeroDivisionError, ValueError):
        raise BadCondition("it divides by 0 or shifts by less than 0") from None
    if tokens != [""]:
        raise BadCondition(f"{tokens[-1]!r} is not expected here")
    return value


def is_defined(name: str, macros: Macros) -> bool:
    """Raises BadCondition for a name that belongs to the compiler."""
    if name.startswith("__") and name not in macros:
        raise BadCondition(f"only the compiler knows {name}")
    return name in macros


def _expanded(text: str, macros: Macros, after_if: bool, within: frozenset[str]) -> Iterator[str]:
    """The tokens, macros replaced by those of their bodies, but none `within` its own."""
    at, text = 0, text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise BadCondition(f"{text[at:].strip()!r} is no part of an integer expression")
        at, name = match.end(), match["name"]
        if name is None:
            yield match["number"] or match["sign"]
        elif name in within or not is_defined(name, macros):
            if not after_if:
                raise BadCondition(f"{name} is no macro")
            yield "0"
        elif (body := macros[name]) is None:
            raise BadCondition(f"{name} is a macro with parameters")
        else:
            yield from _expanded(body, macros, after_if, within | {name})


def _choice(tokens: list[str]) -> int:
    """Of tokens, the next one last: takes those of an expression."""
    condition = _binary(tokens, 0)
    if tokens[-1] != "?":
        return condition
    tokens.pop()
    yes = _choice(tokens)
    _take(tokens, ":")
    no = _choice(tokens)
    return yes if condition else no


def _binary(tokens: list[str], above: int) -> int:
    """Only with operators that bind more strongly than those of a level."""
    token = tokens[-1]
    if token in UNARY:
        tokens.pop()
        left = UNARY[token](_binary(tokens, len(LEVELS)))
    elif token == "(":
        tokens.pop()
        left = _choice(tokens)
        _take(tokens, ")")
    elif token[:1].isdigit():
        left = int(tokens.pop(), 8 if token.isdigit() and token[0] == "0" else 0)
    else:
        raise BadCondition(f"a number is missing before {token or 'the end'!r}")
    while (level := LEVEL.get(tokens[-1], 0)) > above:
        compute = BINARY[tokens.pop()]
        left = int(compute(left, _binary(tokens, level)))
    return left


def _take(tokens: list[str], expected: str) -> None:
    if tokens[-1] != expected:
        raise BadCondition(f"{expected!r} is missing")
    tokens.pop()


def _quotient(a: int, b: int) -> int:
    """Towards 0, as in C."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "!": lambda a: int(not a),
}  # fmt: skip
BINARY: dict[str, Callable[[int, int], int]] = {
    "&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b), "|": operator.or_,
    "^": operator.xor, "&": operator.and_, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "<<": operator.lshift, ">>": operator.rshift, "+": operator.add, "-": operator.sub,
    "*": operator.mul, "/": _quotient, "%": lambda a, b: a - b * _quotient(a, b),
}  # fmt: skip
LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")
LEVEL = {sign: level for level, signs in enumerate(LEVELS, 1) for sign in signs.split()}
