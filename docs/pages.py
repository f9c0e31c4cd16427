"""What Sphinx does not do by itself: maths without a network, and dashes in lists of parameters."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def mathml(node: nodes.math | nodes.math_block, display: str) -> str:
    """MathML, which browsers draw themselves."""
    text = convert(node.astext().replace(r"\arg", r"\mathrm{arg}"), display=display)
    if "\\" in text:
        logger.warning("a command of TeX is unknown: %s", node.astext(), location=node)
    return text


def inline_math(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def block_math(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{mathml(node, "block")}</div>')
    raise nodes.SkipNode


def dashes(app: Sphinx, tree: nodes.document, name: str) -> None:
    """Sphinx writes " -- " behind a parameter; smart quotes, which would mend it, are off."""
    for text in [text for text in tree.findall(nodes.Text) if text == " -- "]:
        text.parent.replace(text, nodes.Text(" – "))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    app.connect("doctree-resolved", dashes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
