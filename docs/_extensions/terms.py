"""The first use of a glossary term on a page becomes a link to it that shows its sentence.

The sentence stands behind the link as a tooltip: site.css shows it while the link has the pointer
or the focus, and assistive technology reads it as the link's description.
"""

import html
import re

from docutils import nodes

from tools.site.pages.terms import uses

GLOSSARY = "glossary"
PLAIN = (
    "kernels/",
    "gemmlab/",
    "tools/",
    "results/",
    GLOSSARY,
)  # pages that hardly have prose, or are it
# What is inside of these stays as it is.
KEPT = (
    nodes.title, nodes.reference, nodes.literal, nodes.literal_block, nodes.raw, nodes.Invisible,
    nodes.term, nodes.rubric, nodes.caption,
)  # fmt: skip


class term_use(nodes.Inline, nodes.TextElement):
    """A use of a term. `target`: where the glossary has it. `meaning`: in Markdown."""


def mark_first_uses(app, doctree, page):
    if page.startswith(PLAIN):
        return
    seen = set()
    for text in list(doctree.findall(nodes.Text)):
        if not _is_prose(text):
            continue
        said, parts, end = text.astext(), [], 0
        for start, stop, term in uses(said):
            if term.name in seen:
                continue
            seen.add(term.name)
            parts.append(nodes.Text(said[end:start]))
            target = app.builder.get_relative_uri(page, GLOSSARY) + "#" + _id(app, term.name)
            words = said[start:stop]
            parts.append(term_use("", words, target=target, meaning=term.meaning, key=term.anchor))
            end = stop
        if parts:
            parts.append(nodes.Text(said[end:]))
            text.parent.replace(text, [part for part in parts if part.astext()])


def _is_prose(text):
    above = text.parent
    while above is not None:
        if isinstance(above, KEPT):
            return False
        above = above.parent
    return True


def _id(app, name):
    """Its anchor in the glossary, as Sphinx made it."""
    return app.env.domains["std"].objects["term", name][1]


def visit_term_use(self, node):
    self.body.append(
        f'<a class="term" href="{node["target"]}" aria-describedby="about-{node["key"]}">'
    )


def depart_term_use(self, node):
    meaning = re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(node["meaning"]))
    self.body.append(
        f'</a><span class="meaning" role="tooltip" id="about-{node["key"]}">{meaning}</span>'
    )


def setup(app):
    app.add_node(term_use, html=(visit_term_use, depart_term_use))
    app.connect("doctree-resolved", mark_first_uses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
