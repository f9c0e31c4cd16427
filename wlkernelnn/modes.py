"""The modes of modules: training and evaluation."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch

# How many blocks evaluate a module now, in whichever threads, and the modes that its parts had before.
_Modes = dict[torch.nn.Module, bool]
_evaluated: WeakKeyDictionary[torch.nn.Module, tuple[int, _Modes]] = WeakKeyDictionary()
_lock = threading.Lock()


@contextmanager
def in_modes(modes: Mapping[torch.nn.Module, bool]) -> Iterator[None]:
    """Parts in modes of their own (training or not) in the block; afterwards in those that they had."""
    before = {part: part.training for part in modes}
    _set(modes)
    try:
        yield
    finally:
        _set(before)


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode in the block; afterwards, also after an error, every part has the mode that it had.

    Several threads may evaluate a module at once: the last one out sets its modes back.
    """
    with _lock:
        count, before = _evaluated.get(module, (0, {}))
        if not count:
            before = {part: part.training for part in module.modules()}
        _evaluated[module] = count + 1, before
        module.eval()
    try:
        yield
    finally:
        with _lock:
            count, before = _evaluated.pop(module)
            if count > 1:
                _evaluated[module] = count - 1, before
            else:
                _set(before)


def _set(modes: Mapping[torch.nn.Module, bool]) -> None:
    for part, training in modes.items():
        part.training = training
