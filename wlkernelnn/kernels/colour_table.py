"""Weisfeiler-Lehman colours by what they are made of: new graphs are read by them, without the old ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from wlkernelnn.ops.colours import wl_colours, wl_quotient
from wlkernelnn.ops.spans import bounds_of
from wlkernelnn.utils.files import as_tensors

from .flat_graphs import FlatGraphs
from .labels import node_labels
from .names import row_numbers

_LEVEL = ("own", "source", "target", "edge_type")


@dataclass(frozen=True)
class ColourTable:
    """The colours of some graphs after 0 … h iterations.

    Attributes:
        codes: The node codes of each colour 0, int64 ``[C_0, F]``.
        levels: Of the colours after 1 … h iterations, int64: ``own`` ``[C]``, what each was one iteration
            before; and for each of its neighbours ``source``, what that was then, ``target``, the colour
            itself, and ``edge_type``, ``[E]``.
    """

    codes: np.ndarray
    levels: tuple[dict[str, np.ndarray], ...]

    @classmethod
    def of(cls, graphs: FlatGraphs, num_iterations: int) -> tuple[Self, list[np.ndarray]]:
        """The colours of graphs of a packed store; and their :meth:`columns`."""
        assert graphs.x is not None
        assert graphs.edge_type is not None
        number = int(graphs.node_ptr[-1])
        rounds = wl_colours(
            node_labels(graphs), graphs.source, graphs.target, num_iterations, graphs.edge_type
        )
        into = bounds_of(np.bincount(graphs.target, minlength=number))
        owner = np.repeat(np.arange(len(graphs)), graphs.sizes)
        quotient = wl_quotient(rounds, graphs.source, into, graphs.edge_type, owner, len(graphs))
        levels = tuple({name: getattr(level, name).numpy() for name in _LEVEL} for level in quotient.levels)
        colours = [quotient.node.numpy()]
        for level in reversed(levels):
            colours.append(level["own"][colours[-1]])
        table = cls(graphs.x[quotient.first.numpy()], levels)
        return table, table._numbered(colours[::-1])

    @property
    def sizes(self) -> list[int]:
        """How many colours there are after 0 … h iterations."""
        return [len(self.codes), *(len(level["own"]) for level in self.levels)]

    def columns(self, graphs: FlatGraphs) -> list[np.ndarray]:
        """Of each node the columns of its colours after 0 … h iterations, ``[ΣV]`` each; −1 where unknown.

        The colours after 0 iterations are the first columns, then come those after 1, and so on.
        """
        assert graphs.x is not None
        assert graphs.edge_type is not None
        number = int(graphs.node_ptr[-1])
        both = row_numbers([*np.concatenate([self.codes, graphs.x]).T], len(self.codes) + number)
        colours = [_found(both, len(self.codes))]
        for before, level in zip(self.sizes, self.levels, strict=False):
            # One step of refinement of a graph: colours of before, those of now with these as neighbours, and
            # the new nodes. What is unknown has a label of its own.
            unknown = np.where(colours[-1] < 0, before, colours[-1])
            now = len(level["own"])
            finer = wl_colours(
                np.concatenate([np.arange(before), level["own"], unknown]),
                np.concatenate([level["source"], graphs.source + before + now]),
                np.concatenate([level["target"] + before, graphs.target + before + now]),
                1,
                np.concatenate([level["edge_type"], graphs.edge_type]),
            )[1]
            colours.append(_found(finer[before:], now))
        return self._numbered(colours)

    def _numbered(self, colours: list[np.ndarray]) -> list[np.ndarray]:
        first = bounds_of(np.array(self.sizes))[:-1]
        return [
            np.where(colour < 0, -1, colour + begin) for colour, begin in zip(colours, first, strict=True)
        ]

    def tensors(self) -> dict[str, torch.Tensor]:
        """The table for a file."""
        named = {"codes": self.codes}
        for number, level in enumerate(self.levels, 1):
            named |= {f"{name}.{number}": values for name, values in level.items()}
        return as_tensors(named)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor], num_iterations: int) -> Self:
        """The table of :meth:`tensors`.

        Raises:
            KeyError: One is missing.
            ValueError: They do not go together.
        """
        levels = tuple(
            {name: tensors[f"{name}.{number}"].numpy() for name in _LEVEL}
            for number in range(1, num_iterations + 1)
        )
        table = cls(tensors["codes"].numpy(), levels)
        for before, now, level in zip(table.sizes, table.sizes[1:], levels, strict=False):
            edges = {len(level[name]) for name in _LEVEL[1:]}
            ends = (level["own"], before), (level["source"], before), (level["target"], now)
            within = (((values >= 0) & (values < most)).all() for values, most in ends)
            if len(edges) > 1 or not all(within):
                raise ValueError("colours are made of others that are not there")
        return table


def _found(numbers: np.ndarray, known: int) -> np.ndarray:
    """Which of the first, known and distinct numbers the others are; −1: none."""
    place = np.full(int(numbers.max(initial=-1)) + 1, -1)
    place[numbers[:known]] = np.arange(known)
    return place[numbers[known:]]
