"""Pages that people read: one HTML file each, without scripts, that needs no network."""

from .page import tried
from .run import PAGE, write_run_page

__all__ = ["PAGE", "tried", "write_run_page"]
