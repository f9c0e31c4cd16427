"""Layers of one cell, in one direction or in both, as in torch.nn.LSTM."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.ops.string import Steps
from wlkernelnn.utils.checks import check_count
from wlkernelnn.utils.configured import described, made

from .stack import Stack
from .string_model import State, StringModel, check_model, check_states


class Bidirectional(StringModel):
    r"""Two models side by side: one reads strings from the left, the other one from the right.

    .. math::
        h[t] = [\overrightarrow h[t], \overleftarrow h[t]]

    Args:
        cell: The model that reads from the left.
        reverse: The model that reads from the right; by default one of the same class and arguments, with
            weights of its own.

    Shapes:
        - input: as of ``cell``; the state is a pair of the states of both
        - output: ``[N, cell.out_channels + reverse.out_channels]`` or ``[B, T, …]``, and both states: that of
          ``cell`` at the last tokens, that of ``reverse`` at the first ones

    Trees and other acyclic graphs are read by ``reverse`` with all edges the other way round.

    Raises:
        TypeError: ``cell`` or ``reverse`` is not a sequence model.
        ValueError: The two read tokens of different widths.
    """

    def __init__(self, cell: StringModel, reverse: StringModel | None = None) -> None:
        super().__init__()
        check_model("cell", cell)
        reverse = like(cell, cell.in_channels) if reverse is None else reverse
        check_model("reverse", reverse)
        if cell.in_channels != reverse.in_channels:
            raise ValueError(
                f"reverse must read tokens of {cell.in_channels} values as cell does, "
                f"got {reverse.in_channels}"
            )
        self.in_channels = cell.in_channels
        self.out_channels = cell.out_channels + reverse.out_channels
        self.branches = cell.branches and reverse.branches
        self.cell = cell
        self.reverse = reverse

    def run(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, State]:
        before = check_states(state, 2, "directions")
        h, last = self.cell(x, steps, before[0])
        h_reverse, first = self.reverse(steps.reverse(x), steps.opposite, before[1])
        return torch.cat([h, steps.opposite.reverse(h_reverse)], 1), (last, first)


class StringRNN(Stack):
    r"""Layers of one cell, with the options of :class:`torch.nn.LSTM`.

    Layer 1 is the cell. All others, and those that read from the right, are new cells of the same class and
    arguments that read what the layer below writes.

    Args:
        cell: A sequence model that is made with ``in_channels``, such as :class:`StringKernelConv`,
            :class:`RKM`, :class:`RecurrentKernelMachine`, :class:`RRNN` or :class:`RRNNGRU`, or a
            :class:`WeightDrop` around one.
        num_layers: Number of layers.
        bidirectional: Each layer reads in both directions, see :class:`Bidirectional`.
        dropout: Probability of dropping a value between two layers.
        jumping, locked: See :class:`Stack`.

    Shapes:
        - input: ``x [N, in_channels]`` with ``ptr [B+1]``, or ``x [B, T, in_channels]`` (batch first), or a
          ``PackedSequence``; the state is a tuple of the layers' states, each a pair of both directions if
          there are two, so that flattened states are in torch's order
        - output: ``[N, D · out_channels]`` with D = 2 if bidirectional, or else 1 (the sum of all layers'
          widths if ``jumping="cat"``), and the states

    Raises:
        TypeError: ``cell`` is not a sequence model.
        ValueError: An argument is out of its range, or ``cell`` cannot be made for another width.

    >>> import torch
    >>> from wlkernelnn.sequence import RKM, StringRNN
    >>> encoder = StringRNN(RKM(300, 200, "rkm_lstm"), num_layers=2, bidirectional=True, dropout=0.3)
    >>> encoder(torch.randn(4, 7, 300))[0].shape
    torch.Size([4, 7, 400])
    """

    def __init__(
        self,
        cell: StringModel,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        jumping: str = "last",
        locked: bool = False,
    ) -> None:
        check_model("cell", cell)
        num_layers = check_count("num_layers", num_layers)
        width = cell.out_channels * (1 + bidirectional)
        cells = [cell, *(like(cell, width) for _ in range(num_layers - 1))]
        super().__init__(
            [Bidirectional(each) for each in cells] if bidirectional else cells, dropout, jumping, locked
        )
        self.bidirectional = bidirectional


def like(model: StringModel, in_channels: int) -> StringModel:
    """A new model of the same class and arguments, for tokens of this width.

    Raises:
        ValueError: The model is not made with ``in_channels``, nor is the one that it wraps.
    """
    # The classes of all that stands among the arguments as a description.
    values = [value for module in model.modules() for value in (module, *vars(module).values())]
    arguments = _with_width(described(model), in_channels)
    again: StringModel = made(_of_its_own(arguments), {type(value).__name__: type(value) for value in values})
    first = next(model.parameters())
    return again.to(first.device, first.dtype)


def _of_its_own(description: Any) -> Any:
    """Modules that are arguments, such as activations with weights, are copied: each model learns its own."""
    if isinstance(description, dict):
        return {name: _of_its_own(value) for name, value in description.items()}
    if isinstance(description, list):
        return [_of_its_own(value) for value in description]
    return copy.deepcopy(description) if isinstance(description, torch.nn.Module) else description


def _with_width(description: dict[str, Any], in_channels: int) -> dict[str, Any]:
    arguments = description["arguments"]
    if "in_channels" in arguments:
        changed: dict[str, Any] = {"in_channels": in_channels}
    elif "model" in arguments:
        changed = {"model": _with_width(arguments["model"], in_channels)}
    else:
        raise ValueError(f"cell must be made with in_channels, {description['kind']} is not")
    return {**description, "arguments": arguments | changed}
