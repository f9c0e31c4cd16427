"""Sphinx configuration: ``pip install ".[docs]"``, then ``sphinx-build -W docs docs/_build``."""

import sys
from pathlib import Path

from wlkernelnn import __version__
from wlkernelnn.bench.harness.report import write_pages

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "wlkernelnn"
author = "The wlkernelnn authors"
version = release = __version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb", "pages", "notebooks"]
html_theme = "furo"
html_title = f"wlkernelnn {version}"
html_show_copyright = False
html_math_renderer = "mathml"  # docs/pages.py
html_static_path = ["static"]
html_css_files = ["wide.css"]
smartquotes = False  # "--seeds" keeps its dashes
napoleon_use_ivar = True  # attributes are described once
python_maximum_signature_line_length = 90
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "exclude-members": "set_fit_request, set_predict_request, set_score_request, set_transform_request",
}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # docs/notebooks.py
nb_merge_streams = True
exclude_patterns = ["_build", "jupyter_execute"]

write_pages(HERE.parent / "bench" / "results", HERE / "results")
