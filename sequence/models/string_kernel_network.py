"""A stack of string kernel layers."""

from __future__ import annotations

from typing import Any

from wlkernelnn.sequence.layers.string_kernel import StringKernelConv
from wlkernelnn.sequence.layers.string_rnn import StringRNN


class StringKernelNetwork(StringRNN):
    r"""String kernel layers on top of each other (Lei et al. 2017, sections 2.2 and 6).

    Its values lie in the space of a :class:`~wlkernelnn.kernels.DeepStringKernel` (theorem 2).

    Args:
        in_channels: Width of the tokens, −1 for lazy.
        hidden_channels: Width of every layer.
        num_layers: Number of layers.
        dropout: Probability of dropping a value between two layers.
        jumping: ``"last"``, ``"sum"`` or ``"cat"``, see :class:`Stack`.
        bidirectional: Each layer reads in both directions, see :class:`Bidirectional`.
        layer_options: Everything else that a :class:`StringKernelConv` takes, the same for all layers; its
            ``dropout`` is called ``rnn_dropout`` here.

    Raises:
        ValueError: An argument is out of its range.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int = 3,
        dropout: float = 0.0,
        jumping: str = "last",
        rnn_dropout: float = 0.0,
        bidirectional: bool = False,
        **layer_options: Any,
    ) -> None:
        cell = StringKernelConv(in_channels, hidden_channels, dropout=rnn_dropout, **layer_options)
        super().__init__(cell, num_layers, bidirectional, dropout, jumping)
