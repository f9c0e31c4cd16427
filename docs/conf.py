"""Sphinx configuration: ``pip install ".[docs]"``, then ``sphinx-build docs docs/_build``."""

from wlkernelnn import __version__

project = "wlkernelnn"
author = "The wlkernelnn authors"
version = release = __version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "myst_parser"]
napoleon_use_ivar = True  # attributes are described once
html_theme = "furo"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
myst_enable_extensions = ["dollarmath"]
exclude_patterns = ["_build"]
