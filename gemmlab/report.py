"""A small result on one sheet: sentences, tables and code, as plain text and as HTML.

Both say the same. The HTML has its styles in place, on a light ground that also reads on a dark
page; nothing in it depends on the machine or the time.
"""

import html
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

SPACES = r'<span style="color: #BBB">(\s+)</span>'  # of a colour that nobody sees
GROUND, INK, RULE, MARGIN = "#FCFCFA", "#222222", "#D9D9D5", "#767676"


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


class Sheet:
    """Parts one below the other. `str(sheet)` is the text, `sheet.html()` the same for a page."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._html: list[str] = []

    def say(self, words: str, *, strong: bool = False) -> None:
        """A sentence, bold where `strong`."""
        self._text.append(words)
        weight = "600" if strong else "400"
        style = f"margin: 0.35em 0; font-weight: {weight}; white-space: pre-wrap"
        self._html.append(f'<p style="{style}">{html.escape(words)}</p>')

    def table(
        self, heads: Sequence[str], rows: Sequence[Sequence[str]], words: tuple[int, ...] = ()
    ) -> None:
        """The first column stands left, and `words`, other columns of words; numbers right."""
        left = (0, *words)

        def cells(tag: str, line: Sequence[str], scope: str, rule: str) -> str:
            return "".join(
                f'<{tag}{scope} style="text-align: {"left" if at in left else "right"}; '
                f'padding: 0.1em 0.7em; border: 0{rule}">{html.escape(words)}</{tag}>'
                for at, words in enumerate(line)
            )

        self._text.append(aligned([heads, *rows], left))
        ground = f"background: {GROUND}; color: {INK}"
        head = cells("th", heads, ' scope="col"', f"; border-bottom: 1px solid {RULE}")
        body = "".join(f'<tr style="{ground}">{cells("td", row, "", "")}</tr>' for row in rows)
        self._html.append(
            '<table style="border-collapse: collapse; border: 0; margin: 0.35em 0; '
            f'font-size: 13px; line-height: 1.35; {ground}"><thead><tr style="{ground}">{head}'
            f"</tr></thead><tbody>{body}</tbody></table>"
        )

    def __str__(self) -> str:
        return "\n".join(self._text)

    def html(self) -> str:
        style = f"background: {GROUND}; color: {INK}; padding: 0.5em 0.8em; overflow-x: auto"
        return f'<div style="{style}">{"".join(self._html)}</div>'


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
