"""The modes of modules: training and evaluation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch

# How many blocks evaluate a part of a module now, in whichever threads, and the mode that it had before.
_evaluated: WeakKeyDictionary[torch.nn.Module, tuple[int, bool]] = WeakKeyDictionary()
_lock = threading.Lock()


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode in the block; afterwards, also after an error, every part has the mode that it had.

    Several threads may evaluate a module and parts of it at once: the last one out sets a part's mode back to
    what it was before the first.
    """
    parts = list(module.modules())
    with _lock:
        for part in parts:
            count, before = _evaluated.get(part, (0, part.training))
            _evaluated[part] = count + 1, before
        module.eval()
    try:
        yield
    finally:
        with _lock:
            for part in parts:
                count, before = _evaluated.pop(part)
                if count > 1:
                    _evaluated[part] = count - 1, before
                else:
                    part.training = before
