"""The words of the series, one sentence each, and the notebook that explains them: glossary.md."""

import html
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gemmlab.notebook.index import link, short
from gemmlab.report import PAPER, Shown


@dataclass(frozen=True)
class Term:
    """`notebook`: where it is explained. `also`: other words for it, or other forms of it."""

    name: str
    notebook: str
    meaning: str
    also: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Its id in HTML: "term-bank-conflict"."""
        return "term-" + re.sub(r"\W+", "-", self.name.lower().strip("_"))


ENTRY = re.compile(r"^- \*\*(.+?)\*\*(?: \((.+?)\))?, (\w+): (.+)$", re.MULTILINE)


def _read() -> tuple[Term, ...]:
    """The terms of glossary.md, in the order of the alphabet."""
    text = Path(__file__).with_name("glossary.md").read_text(encoding="utf-8")
    entries = ENTRY.finditer(text)
    terms = [Term(e[1], e[3], e[4], tuple(e[2].split(", ")) if e[2] else ()) for e in entries]
    return tuple(sorted(terms, key=lambda term: term.name.lower().strip("_")))


TERMS = _read()


def glossary() -> Shown:
    """All terms in the order of the alphabet; as HTML with an anchor and a link for each."""
    width = max(len(term.name) for term in TERMS)
    code = partial(re.sub, "`([^`]+)`", r"<code>\1</code>")  # what stands in `backticks`
    text = "\n".join(f"{t.name:<{width}}  {short(t.notebook):<4}  {t.meaning}" for t in TERMS)
    entries = "".join(
        f'<p id="{term.anchor}" style="margin: 0.35em 0"><b>{html.escape(term.name)}</b> '
        f"{code(html.escape(term.meaning))} {link(term.notebook, short(term.notebook))}</p>"
        for term in TERMS
    )
    return Shown(text, f'<div style="{PAPER}; padding: 0.1em 0.8em">{entries}</div>')
