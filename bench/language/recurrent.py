"""torch's LSTM and GRU as models of strings."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from wlkernelnn.ops.string import Steps
from wlkernelnn.sequence import StringModel
from wlkernelnn.sequence.layers.string_model import State, check_state


class Recurrent(StringModel):
    """One layer of ``torch.nn.LSTM``, whose state is h above c, or of ``GRU``, whose state is h."""

    def __init__(self, kind: type[torch.nn.LSTM | torch.nn.GRU], in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.layer = kind(in_channels, out_channels)

    def reset_parameters(self) -> None:
        self.layer.reset_parameters()

    def run(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, Tensor]:
        is_lstm = isinstance(self.layer, torch.nn.LSTM)
        shape = (1 + is_lstm, steps.num_strings, self.out_channels)
        before = x.new_zeros(shape) if state is None else check_state("Recurrent", state, shape)
        if not steps.num_tokens:
            return x.new_zeros(0, self.out_channels), before
        # Step order is torch's own for packed strings; empty ones, the last, are none of them.
        num_read = steps.counts[0]
        read = before[:, :num_read].unsqueeze(1).contiguous()
        packed = PackedSequence(x, torch.tensor(steps.counts))
        (out, *_), after = self.layer(packed, tuple(read) if is_lstm else read[0])
        return out, torch.cat([torch.cat(after) if is_lstm else after, before[:, num_read:]], 1)
