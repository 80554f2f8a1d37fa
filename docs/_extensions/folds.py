"""Sections of the class "folded" become <details>: closed, with their heading as the summary."""

from docutils import nodes
from sphinx.writers.html5 import HTML5Translator


def is_folded(section: nodes.Element) -> bool:
    return isinstance(section, nodes.section) and "folded" in section["classes"]


def visit_title(self: HTML5Translator, node: nodes.title) -> None:
    if is_folded(node.parent):
        self.body.append('<details class="fold"><summary>')
    HTML5Translator.visit_title(self, node)


def depart_title(self: HTML5Translator, node: nodes.title) -> None:
    HTML5Translator.depart_title(self, node)
    if is_folded(node.parent):
        self.body.append("</summary>\n")


def depart_section(self: HTML5Translator, node: nodes.section) -> None:
    if is_folded(node):
        self.body.append("</details>\n")
    HTML5Translator.depart_section(self, node)


def setup(app):
    app.add_node(nodes.title, override=True, html=(visit_title, depart_title))
    app.add_node(nodes.section, override=True, html=(HTML5Translator.visit_section, depart_section))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
