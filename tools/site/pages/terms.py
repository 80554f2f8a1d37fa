"""Find the uses of glossary words in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from gemmlab.notebook.glossary import TERMS, Term


def uses(text: str) -> Iterator[tuple[int, int, Term]]:
    """From where to where each use of a term reaches, in their order; the longest term there."""
    for match in _pattern().finditer(text):
        yield match.start(), match.end(), _by_form()[match[1].lower()]


@cache
def _by_form() -> dict[str, Term]:
    return {form.lower(): term for term in TERMS for form in (term.name, *term.also)}


@cache
def _pattern() -> re.Pattern:
    forms = sorted(_by_form(), key=len, reverse=True)
    # In the singular or the plural, and not a part of a compound such as "warp-wide".
    return re.compile(
        rf"(?<![\w-])({'|'.join(map(re.escape, forms))})(?:s|es)?(?![\w-])", re.IGNORECASE
    )
