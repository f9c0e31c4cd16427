"""Modules that need packages which may not be there."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional_module(name: str) -> Any:
    """The module of this full name, ``None`` where it cannot be imported."""
    try:
        return import_module(name)
    except ImportError:
        return None
