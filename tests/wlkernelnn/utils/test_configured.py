from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from wlkernelnn.utils.configured import Configured, described, made


class Part(Configured, torch.nn.Module):
    def __init__(self, width: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.width = width


class Whole(Part):
    def __init__(self, parts: list[Part], width: int = 3, **options: Any) -> None:
        options["seen"] = True  # what a constructor makes of its arguments is not recorded
        super().__init__(width=99)
        self.parts = torch.nn.ModuleList(parts)


KINDS = {"Part": Part, "Whole": Whole}


def test_arguments_are_kept_with_defaults_and_parts() -> None:
    net = Whole([Part(2), Part(width=np.int64(4), scale=0.5)], colour="red", sizes=np.array([1, 2]))
    assert net.config == {
        "parts": [
            {"kind": "Part", "arguments": {"width": 2, "scale": 1.0}},
            {"kind": "Part", "arguments": {"width": 4, "scale": 0.5}},
        ],
        "width": 3,
        "colour": "red",
        "sizes": [1, 2],
    }
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert again.config == net.config


def test_made_again() -> None:
    net = Whole([Part(2)], 5)
    again = made(json.loads(json.dumps(described(net))), KINDS)
    assert isinstance(again, Whole)
    assert again.config == net.config
    assert again.parts[0].width == 2


def test_unknown_kinds() -> None:
    with pytest.raises(ValueError, match="kind must be one of Part, Whole, got 'Other'"):
        made({"kind": "Other", "arguments": {}}, KINDS)
