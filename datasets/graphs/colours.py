"""Weisfeiler-Lehman colours of all nodes of a packed store: made when first asked for, kept with its file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.ops.colours import wl_colours

from .arrays import Arrays, content_hash, smallest

logger = logging.getLogger("wlkernelnn")

# What colours in a file mean; to be changed with their definition.
DEFINITION = "wl_colours/1"


def colours_key(arrays: Arrays) -> str:
    """SHA-256 of all that the colours depend on."""
    a = arrays
    return content_hash(DEFINITION, a.node_type, a.source, a.in_degree, a.edge_type, a.node_ptr, a.edge_ptr)


@dataclass
class Colours:
    """The colours of all nodes that are known so far.

    Attributes:
        levels: After 0, 1, … iterations, ``[ΣV]`` each.
        path: The store's file, if they are those of a file.
        claim: Of which graphs they are, as the file says it (see :func:`colours_key`), until that has been
            checked.
    """

    levels: list[np.ndarray] = field(default_factory=list)
    path: str | None = None
    claim: str | None = None

    def upto(self, depth: int, arrays: Arrays) -> list[np.ndarray]:
        """Those after 0, 1, … ``depth`` iterations, in as few bytes as fit; what is not known yet is made."""
        if self.claim is not None:
            if self.claim != colours_key(arrays):
                logger.warning(f"{self.path}: the file's colours are not those of its graphs: made anew")
                self.levels = []
            self.claim = None
        if len(self.levels) <= depth:
            num_nodes, num_edges = arrays.node_ptr.diff().numpy(), arrays.edge_ptr.diff().numpy()
            levels = wl_colours(
                arrays.node_type.numpy(),
                arrays.source.numpy() + np.repeat(arrays.node_ptr.numpy()[:-1], num_edges),
                np.repeat(np.arange(num_nodes.sum()), arrays.in_degree.numpy()),
                depth,
                arrays.edge_type.numpy(),
            )
            self.levels, self.path = [smallest(level).numpy() for level in levels], None
        return self.levels[: depth + 1]

    def to_file(self, arrays: Arrays) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What a file holds of them: its tensors, and what it says of these."""
        levels = self.upto(len(self.levels) - 1, arrays) if self.levels else []
        tensors = {f"colours.{level}": torch.from_numpy(colour) for level, colour in enumerate(levels)}
        return tensors, {"levels": len(levels), "origin": colours_key(arrays) if levels else ""}

    @classmethod
    def from_file(cls, tensors: dict[str, Tensor], about: Mapping[str, Any], path: str) -> Colours:
        """Those of a file, taken out of its tensors; a ``ValueError`` if they are not one per node."""
        levels = [tensors.pop(f"colours.{level}").numpy() for level in range(about["levels"])]
        num_nodes = len(tensors["node_type"])
        for number, level in enumerate(levels):
            if len(level) != num_nodes:
                found = f"colours.{number} has {len(level)} entries"
                raise ValueError(f"{path}: the file contradicts itself: {found}, expected {num_nodes}")
        return cls(levels, path, about["origin"]) if levels else cls()
