"""Machines that tell texts apart."""

from .machine import TextMachine
from .saved import is_text_machine, load_text_machine, save_text_machine, text_digest

__all__ = ["TextMachine", "is_text_machine", "load_text_machine", "save_text_machine", "text_digest"]
