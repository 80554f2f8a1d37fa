"""A small result on one sheet, or a listing of code, as plain text and as HTML.

Both say the same. The HTML has its styles in place, on a light ground that also reads on a dark
page; nothing in it depends on the machine or the time.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

SPACES = r'<span style="color: #BBB">(\s+)</span>'  # of a colour that nobody sees
GROUND, INK, RULE, MARGIN = "#FCFCFA", "#222222", "#D9D9D5", "#767676"
PAPER = f"background: {GROUND}; color: {INK}"


def aligned(lines: Sequence[Sequence[str]], left: Collection[int]) -> str:
    """Lines of cells in columns: those at `left` stand left, the others right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in lines
    )


def sheet(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int],
    sentences: Sequence[str],
) -> Shown:  # fmt: skip
    """A title, a table and sentences below one another. In the table the columns `left`, which are
    words, stand left; numbers stand right."""

    def paragraph(text: str, weight: int) -> str:
        style = f"margin: 0.35em 0; font-weight: {weight}; white-space: pre-wrap"
        return f'<p style="{style}">{html.escape(text)}</p>'

    def cells(tag: str, line: Sequence[str], scope: str, rule: str) -> str:
        return "".join(
            f'<{tag}{scope} style="text-align: {"left" if at in left else "right"}; '
            f'padding: 0.1em 0.7em; border: 0{rule}">{html.escape(text)}</{tag}>'
            for at, text in enumerate(line)
        )

    head = cells("th", heads, ' scope="col"', f"; border-bottom: 1px solid {RULE}")
    body = "".join(f'<tr style="{PAPER}">{cells("td", row, "", "")}</tr>' for row in rows)
    table = (
        '<table style="border-collapse: collapse; border: 0; margin: 0.35em 0; '
        f'font-size: 13px; line-height: 1.35; {PAPER}"><thead><tr style="{PAPER}">{head}'
        f"</tr></thead><tbody>{body}</tbody></table>"
    )
    below = "".join(paragraph(sentence, 400) for sentence in sentences)
    return Shown(
        "\n".join([title, aligned([heads, *rows], left), *sentences]),
        f'<div style="{PAPER}; padding: 0.5em 0.8em; overflow-x: auto">'
        f"{paragraph(title, 600)}{table}{below}</div>",
    )


def number(value: object) -> str:
    """A number in a table: whole ones in full, others with up to four digits; words stay words."""
    if isinstance(value, str):
        return value
    value = float(value)
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"


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
        if not self.numbers:
            return self.text
        lines = zip(self._margin(), self.text.split("\n"), strict=True)
        return "\n".join(f"{number}  {line}".rstrip() for number, line in lines)

    def _repr_html_(self):
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name

        # Styles in place: they hold in every viewer, on a light ground also where the page is dark.
        lexer = get_lexer_by_name(self.language, stripnl=False, ensurenl=False)
        code = highlight(self.text, lexer, HtmlFormatter(noclasses=True, nowrap=True))
        code = re.sub(SPACES, r"\1", code.removesuffix("\n"))
        if self.numbers:
            margin = (
                f'<span style="color: {MARGIN}">{number}  </span>' for number in self._margin()
            )
            code = "\n".join(map("".join, zip(margin, code.split("\n"), strict=True)))
        paper = f"font-family: monospace; line-height: 1.3; color: {INK}; background: {GROUND}"
        return (
            f'<div style="background: {GROUND}; overflow-x: auto">'
            f'<pre style="{paper}; padding: 0.5em; margin: 0">{code}</pre></div>'
        )

    def _margin(self) -> list[str]:
        width = len(str(max(number or 0 for number in self.numbers)))
        return [f"{'' if number is None else number:>{width}}" for number in self.numbers]
