"""What Sphinx does not do by itself: maths without a network, and dashes in lists of parameters."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def inline_math(self: HTML5Translator, node: nodes.math) -> None:
    """MathML, which browsers draw themselves."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block_math(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def dashes(app: Sphinx, tree: nodes.document, name: str) -> None:
    """Sphinx writes " -- " behind a parameter; smart quotes, which would mend it, are off."""
    for text in [text for text in tree.findall(nodes.Text) if text == " -- "]:
        text.parent.replace(text, nodes.Text(" – "))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    app.connect("doctree-resolved", dashes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
