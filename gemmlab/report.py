"""A small result on one sheet: sentences, tables and code, as plain text and as HTML.

Both say the same. The HTML has its styles in place, on a light ground that also reads on a dark
page; nothing in it depends on the machine or the time.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field

GROUND, INK, RULE, MARGIN = "#FCFCFA", "#222222", "#D9D9D5", "#767676"
GAP = "  "  # between columns of plain text


@dataclass(frozen=True)
class Words:
    """A sentence, bold where `strong`."""

    words: str
    strong: bool = False

    def __str__(self) -> str:
        return self.words

    def html(self) -> str:
        weight = "600" if self.strong else "400"
        return (
            f'<p style="margin: 0.35em 0; font-weight: {weight}; white-space: pre-wrap">'
            f"{html.escape(self.words)}</p>"
        )


@dataclass(frozen=True)
class Code:
    """Lines that keep their spaces, such as those around a compile error."""

    text: str

    def __str__(self) -> str:
        return self.text

    def html(self) -> str:
        style = "margin: 0.35em 0; padding: 0; background: inherit; color: inherit"
        return f'<pre style="{style}; line-height: 1.35">{html.escape(self.text)}</pre>'


@dataclass(frozen=True)
class Rows:
    """A table. The first column stands left, numbers right; `words`: other columns of words."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: tuple[int, ...] = ()

    def __str__(self) -> str:
        lines = [self.heads, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            GAP.join(
                cell.ljust(width) if self._left(at) else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ).rstrip()
            for cells in lines
        )

    def html(self) -> str:
        heads = "".join(self._cell("th", at, head) for at, head in enumerate(self.heads))
        rows = [
            "".join(self._cell("td", at, cell) for at, cell in enumerate(cells))
            for cells in self.rows
        ]
        ground = f"background: {GROUND}; color: {INK}"
        body = "".join(f'<tr style="{ground}">{cells}</tr>' for cells in rows)
        return (
            '<table style="border-collapse: collapse; border: 0; margin: 0.35em 0; '
            f'font-size: 13px; line-height: 1.35; {ground}"><thead><tr style="{ground}">{heads}'
            f"</tr></thead><tbody>{body}</tbody></table>"
        )

    def _left(self, column: int) -> bool:
        return column == 0 or column in self.words

    def _cell(self, tag: str, column: int, words: str) -> str:
        side = "left" if self._left(column) else "right"
        rule = f"border: 0; border-bottom: 1px solid {RULE}" if tag == "th" else "border: 0"
        scope = ' scope="col"' if tag == "th" else ""
        return (
            f'<{tag}{scope} style="text-align: {side}; padding: 0.1em 0.7em; {rule}">'
            f"{html.escape(words)}</{tag}>"
        )


@dataclass
class Sheet:
    """Parts one below the other. `str(sheet)` is the text, `sheet.html()` the same for a page."""

    parts: list[Words | Code | Rows] = field(default_factory=list)

    def say(self, words: str, *, strong: bool = False) -> None:
        self.parts.append(Words(words, strong))

    def code(self, text: str) -> None:
        self.parts.append(Code(text))

    def table(
        self, heads: Sequence[str], rows: Sequence[Sequence[str]], words: tuple[int, ...] = ()
    ) -> None:
        self.parts.append(Rows(heads, rows, words))

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts))

    def html(self) -> str:
        style = f"background: {GROUND}; color: {INK}; padding: 0.5em 0.8em; overflow-x: auto"
        return f'<div style="{style}">{"".join(part.html() for part in self.parts)}</div>'


def number(value: object) -> str:
    """A number in a table: whole ones in full, others with up to four digits; words stay words."""
    if isinstance(value, str):
        return value
    value = float(value)
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"


def ratio(before: float, after: float) -> float | None:
    """after / before, where both can be compared: None where one of them is 0 or no number."""
    numbers = all(isinstance(value, (int, float)) for value in (before, after))
    return float(after / before) if numbers and before and after else None


def times(value: float | None) -> str:
    """A ratio: "×0.5"; nothing where there is none."""
    return "" if value is None else f"×{value:.3g}"


@dataclass(frozen=True)
class Shown:
    """What a notebook shows as HTML, and a terminal as text."""

    text: str
    markup: str

    def __repr__(self):
        return self.text

    def _repr_html_(self):
        return self.markup


@dataclass(frozen=True)
class Listing:
    """Code that a notebook shows with highlighting, and a terminal as it is.

    `text` is the code alone. `numbers`: of its lines in their file, shown before each; None leaves
    them out, and so does a line whose number is None, such as one that stands for others.
    """

    text: str
    language: str
    numbers: tuple[int | None, ...] | None = None

    def __repr__(self):
        return (
            "\n".join(
                f"{number}  {line}".rstrip() if number.strip() or line else ""
                for number, line in zip(self._margin(), self.text.split("\n"), strict=True)
            )
            if self.numbers
            else self.text
        )

    def _repr_html_(self):
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name

        # Styles in place: they hold in every viewer, on a light ground also where the page is dark.
        lexer = get_lexer_by_name(self.language, stripnl=False, ensurenl=False)
        code = highlight(self.text, lexer, HtmlFormatter(noclasses=True, nowrap=True))
        code = code.removesuffix("\n")
        if self.numbers:
            code = "\n".join(
                f'<span style="color: {MARGIN}">{number}  </span>{line}'
                for number, line in zip(self._margin(), code.split("\n"), strict=True)
            )
        paper = f"font-family: monospace; line-height: 1.3; color: {INK}; background: {GROUND}"
        return (
            f'<div style="background: {GROUND}; overflow-x: auto">'
            f'<pre style="{paper}; padding: 0.5em; margin: 0">{code}</pre></div>'
        )

    def _margin(self) -> list[str]:
        width = len(str(max(number or 0 for number in self.numbers)))
        return [f"{'' if number is None else number:>{width}}" for number in self.numbers]
