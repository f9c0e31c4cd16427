"""Pages that people read: one HTML file each, without scripts, that needs no network; and a model card."""

from .card import CARD, write_model_card
from .cross_validation import write_cv_page
from .evaluation import write_evaluation_page
from .explanation import write_explanation_page
from .page import tried
from .run import PAGE, write_run_page
from .text import write_text_page

__all__ = [
    "CARD",
    "PAGE",
    "tried",
    "write_cv_page",
    "write_evaluation_page",
    "write_explanation_page",
    "write_model_card",
    "write_run_page",
    "write_text_page",
]
